# SPDX-License-Identifier: Apache-2.0
# `make help` lists the targets. Everything a target needs, it installs itself.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := .cache/stamps
# The two kernels that everything is built for and tested on.
KERNELS := 6.1 6.12
export LTP_CACHE ?= $(CURDIR)/.cache

.PHONY: help demo test test-fast test-slow kmod lint format clean install uninstall venv \
        lock generate venv-train train-encoder collect-dataset train-ltp train-jury train-spine train-owl compare-ltp \
        bench bench-kmod bench-daemon bench-lab bench-simulator validate-simulator traces claims

help: ## List the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  \033[1m%-18s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: venv kmod ## Build, boot the lab, run the switcher beside cubic, bbr and vegas; results in out/demo/
	@$(BIN)/ltp-eval demo --out out/demo

test: venv kmod ## Every test that fits in 20 minutes, the module's in the lab included
	@$(MAKE) --no-print-directory -C kmod-mutant host-test
	@$(BIN)/pytest -m "not slow"

test-fast: venv ## Only what needs no kernel: seconds
	@$(BIN)/pytest -q -m "not slow and not lab"

test-slow: venv kmod ## The long suites
	@$(BIN)/pytest -m slow

kmod: $(STAMPS)/apt ## Build tcp_mutant.ko for both kernels
	@for kernel in $(KERNELS); do $(MAKE) --no-print-directory -C kmod-mutant KVER=$$(.ci/kernel-release $$kernel); done

lint: venv ## ruff, mypy, import-linter, checkpatch, generated files up to date
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy -p ltp_switcher
	@.ci/lint-imports
	@$(BIN)/python kmod-mutant/tools/generate.py --check
	@$(BIN)/ltp-eval claims-page --check
	@.ci/checkpatch

format: venv ## Let ruff format the Python code
	@$(BIN)/ruff check --fix . && $(BIN)/ruff format .

lock: ## Pin the Python packages anew from pyproject.toml
	@.ci/lock

generate: venv ## Netlink header, policies, Python constants and docs from the YAML spec
	@$(BIN)/python kmod-mutant/tools/generate.py

collect-dataset: venv kmod ## Record the encoder's data set in the lab (resumes where it stopped)
	@$(BIN)/python -m ltp_switcher.eval.run.collection
	@$(BIN)/python -m ltp_switcher.daemon.choose.bandit.replay

train-encoder: collect-dataset $(STAMPS)/train ## Train the encoder and write its weights (PyTorch, 5.4 GB, in .venv-train)
	@.venv-train/bin/python -m ltp_switcher.encoder.train
	@$(BIN)/python -m ltp_switcher.encoder.figure

venv-train: $(STAMPS)/train ## PyTorch in .venv-train (5.4 GB), to train by hand

# The policies' own settings, three seeds. What was cut off goes on.
TRAIN = .venv-train/bin/python -m ltp_switcher.policies

train-ltp: $(STAMPS)/train ## Train LTP; weights to policies/ltp/
	@$(TRAIN).ltp.train --out .cache/train/ltp --seeds 1 2 3 --resume --export policies/ltp/ltp.npz

LTP_VARIANTS = ltp ltp-no-probe oracle astraea sage orca aurora
LTP_SEEDS ?= 1

compare-ltp: $(STAMPS)/train ## LTP beside its variants, each seed of LTP_SEEDS, on held-out paths of each region (hours)
	@for region in small medium large; do \
		out=.cache/train/ltp-variants/$$region; mkdir -p $$out; \
		for seed in $(LTP_SEEDS); do \
			for variant in $(LTP_VARIANTS); do \
				$(TRAIN).ltp.train --variant $$variant --region $$region --seeds $$seed \
					--out $$out/$$variant-$$seed --resume --export $$out/$$variant-$$seed.npz || exit 1; \
			done; \
		done; \
		$(TRAIN).ltp.evaluate paths $(foreach seed,$(LTP_SEEDS),$(LTP_VARIANTS:%=$$out/%-$(seed).npz)) \
			--regions $$region || exit 1; \
	done

train-jury: $(STAMPS)/train ## Train Jury
	@$(TRAIN).jury.train --out .cache/train/jury --seeds 1 2 3 --choose 1 --resume \
		--export policies/jury/jury.npz

train-spine: $(STAMPS)/train ## Train Spine, and Spine-Cubic
	@$(TRAIN).spine.train --out .cache/train/spine --seeds 1 2 3 --resume --export policies/spine/spine.npz
	@$(TRAIN).spine.train --law cubic --out .cache/train/spine-cubic --seeds 1 2 3 --validate-every 3 --resume \
		--export policies/spine/spine-cubic.npz

train-owl: $(STAMPS)/train ## Train Owl, and Owl-Loss
	@$(TRAIN).owl.train --out .cache/train/owl --seeds 1 2 3 --resume --export policies/owl/owl.npz
	@$(TRAIN).owl.train --variant owl-loss --out .cache/train/owl-loss --seeds 1 2 3 --resume \
		--export policies/owl/owl-loss.npz

bench-simulator: venv ## Flow-steps a second of the simulator that the policies train in
	@$(BIN)/python -m ltp_switcher.policies.simulator.bench

traces: venv ## Recorded cellular traces into .cache/traces (GPL-3, from Debian; LTP_TRACES names another folder)
	@$(BIN)/ltp-eval traces

validate-simulator: traces ## The simulator beside the lab: cubic and constant rates on the same scenarios
	@PATH=$(CURDIR)/$(BIN):$$PATH; $(BIN)/python -m ltp_switcher.policies.simulator.validate --commands | sh
	@$(BIN)/python -m ltp_switcher.policies.simulator.validate

claims: kmod traces ## What the learned arms' papers claim, on the lab's kernel, beside its targets
	@$(BIN)/ltp-eval claims

bench: bench-daemon bench-kmod bench-lab ## All benchmarks; they print, they do not judge

bench-daemon: venv ## Steps, p50 and p99 per step, flows a core
	@$(BIN)/python -m ltp_switcher.daemon.choose.bandit.bench

bench-kmod: venv kmod ## Guest instructions per acknowledged packet and per switch
	@$(BIN)/ltp-eval cost
	@PYTHONPATH=tests $(BIN)/python tests/kmod/bench_switch.py

bench-lab: venv kmod ## Virtual seconds a wall second, instructions a packet
	@$(BIN)/ltp-eval speed

install: ## Install module (DKMS), daemon, API and units on this machine (as root)
	@packaging/install.sh

uninstall: ## Take them away again
	@packaging/uninstall.sh

clean: ## Remove what was built (the download cache stays; `rm -r .cache` removes it too)
	@rm -rf out build dist $(VENV) .venv-train $(STAMPS)
	@find . -name __pycache__ -prune -not -path './.cache/*' -exec rm -rf {} +
	@$(MAKE) --no-print-directory -C kmod-mutant clean

venv: $(STAMPS)/venv

$(STAMPS)/apt: .ci/apt-packages .ci/install-packages
	@.ci/install-packages
	@mkdir -p $(@D) && touch $@

$(STAMPS)/venv: requirements.lock pyproject.toml $(STAMPS)/apt
	@echo "Python packages → $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(STAMPS)/train: requirements-train.lock $(STAMPS)/apt
	@$(PYTHON) -m venv .venv-train
	@.venv-train/bin/pip install --disable-pip-version-check --require-hashes -r requirements-train.lock
	@.venv-train/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@
