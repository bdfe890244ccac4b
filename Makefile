# SPDX-License-Identifier: Apache-2.0
# `make help` lists the targets. Each target installs the tools that it needs.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := .cache/stamps
# The module is built for these kernels and tested on them.
KERNELS := 6.1 6.12
export LTP_CACHE ?= $(CURDIR)/.cache

.PHONY: deb help demo demo-fleet demo-picture eval eval-offsets eval-quick studies test test-fast test-long test-chance test-slow test-packages test-kernels test-debug mutate fuzz kmod lint format clean install release \
        uninstall venv \
        lock generate openapi promtool torch venv-train train-encoder collect-dataset train-ltp train-jury train-spine train-owl compare-ltp \
        bench bench-api bench-fleet bench-kmod bench-scale bench-resume bench-daemon bench-lab bench-simulator validate-simulator traces mahimahi agree claims screenshots gain-coverage gain-rollout

help: ## List the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  \033[1m%-18s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

SEEDS ?= 1

demo: venv $(STAMPS)/lab ## Run the switcher and single protocols on six small networks: out/demo/ (SEEDS=1-5: intervals)
	@$(BIN)/ltp-eval demo --out out/demo --seeds $(SEEDS)

demo-fleet: venv ## Run a store and three daemons, one of which teaches another: out/demo-fleet/, a minute (ARGS=--json)
	@.ci/install-packages python redis-server
	@PYTHONPATH=tests $(BIN)/python -m fleet.demo $(ARGS)

demo-picture: demo demo-fleet ## Run the demos, and put their pictures into the documentation
	@cp out/demo/demo.png docs/img/demo.png
	@cp out/demo-fleet/demo.png docs/img/demo-fleet.png

# A file's tests share what they set up, such as a guest. `tests/conftest.py` has the order of the files.
PARALLEL := -n auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder

# What differs by chance: single packets and moments, in the guests that the tests' own scripts drive.
CHANCED := tests/kmod/test_checks_lab.py tests/daemon

test: venv kmod promtool ## Run the tests, those in the lab included: 20 minutes on two free cores
	@$(MAKE) --no-print-directory -C kmod-mutant host-test
	@$(BIN)/pytest $(PARALLEL) -m "not slow and not long"

test-long: venv kmod ## Run the tests of module and lab on the second kernel, and under stress: a quarter of an hour more
	@$(BIN)/pytest $(PARALLEL) -m "long and not slow"

test-chance: venv kmod ## Run the lab's checks with other random numbers and moments: N="1 2 3", ten minutes each
	@for n in $(or $(N),1 2 3); do echo "LTP_TEST_CHANCE=$$n"; LTP_TEST_CHANCE=$$n $(BIN)/pytest $(PARALLEL) -m lab $(CHANCED) || failed=1; done; exit $${failed:-0}

test-fast: venv $(STAMPS)/all ## Run the tests that need no kernel
	@$(BIN)/pytest $(PARALLEL) -q -m "not slow and not lab"

test-slow: venv kmod torch ## Run the long tests, and those of the trainers with Debian 13's PyTorch
	@$(BIN)/pytest -m slow
	@PYTHONPATH=src .ci/python-torch -m pytest tests/trainers

# Resumable: packages, machines and finished runs are kept until their inputs change.
test-packages: venv $(STAMPS)/all ## Install, upgrade and purge the packages in machines of Debian 12 and 13 (ARGS=--json)
	@.ci/install-packages debhelper dh-dkms lintian
	@PYTHONPATH=tests $(BIN)/python -m packages $(ARGS)

test-kernels: venv $(STAMPS)/all ## Build the module for the kernels of Debian 13 and unstable, and test it there; for arm64, too (ARGS=--json)
	@.ci/install-packages gcc-aarch64-linux-gnu
	@PYTHONPATH=tests $(BIN)/python -m kernels $(ARGS)

test-debug: venv kmod ## Run the module on four processors, with poisoned memory: hours; resumable
	@PYTHONPATH=tests $(BIN)/python -m debug_kernels --page docs/lab-notes/debug-kernels.md

mutate: venv $(STAMPS)/all traces torch ## Plant faults, and count those that the tests notice: 30 minutes on two cores
	@PYTHONPATH=tests $(BIN)/python -m mutation --page docs/lab-notes/mutation.md

FUZZ ?= --seed 1

fuzz: venv ## Send 20,000 odd requests to the API and the control socket; minutes (FUZZ="--seed 2 --json": options)
	@PYTHONPATH=tests $(BIN)/python -m fuzz $(FUZZ)

kmod: $(STAMPS)/all ## Build tcp_mutant.ko for both kernels, and the BPF program of `use`
	@$(MAKE) --no-print-directory -C kmod-mutant bpf
	@for kernel in $(KERNELS); do $(MAKE) --no-print-directory -C kmod-mutant KVER=$$(.ci/kernel-release $$kernel); done

lint: venv $(STAMPS)/all ## Run ruff, mypy, import-linter and checkpatch, and check the generated files
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy -p ltp_switcher
	@.ci/lint-imports
	@$(BIN)/python kmod-mutant/tools/generate.py --check
	@$(BIN)/ltp-eval claims-page --check
	@.ci/checkpatch

format: venv ## Format the Python code with ruff
	@$(BIN)/ruff check --fix . && $(BIN)/ruff format .

lock: ## Pin the Python packages of pyproject.toml again
	@.ci/lock

generate: venv ## Generate netlink header, policies, Python constants and docs from the YAML spec
	@$(BIN)/python kmod-mutant/tools/generate.py

openapi: venv ## Write docs/openapi.json anew from the routes of the API
	@$(BIN)/ltp-switcher-api --openapi > docs/openapi.json

collect-dataset: venv kmod ## Record the encoder's data set in the lab (resumable)
	@$(BIN)/python -m ltp_switcher.eval.run.collection
	@$(BIN)/python -m ltp_switcher.daemon.choose.bandit.replay

train-encoder: collect-dataset $(STAMPS)/train ## Train the encoder and write its weights (PyTorch, 5.4 GB, in .venv-train)
	@.venv-train/bin/python -m ltp_switcher.encoder.train
	@$(BIN)/python -m ltp_switcher.encoder.figure

promtool: $(LTP_CACHE)/promtool/promtool ## Unpack promtool, which checks the metrics, from Debian's package

torch: $(LTP_CACHE)/torch/installed ## Unpack PyTorch for the trainers' tests (1.3 GB, in the cache)

venv-train: $(STAMPS)/train ## Install PyTorch in .venv-train (5.4 GB)

# The trainings use the policies' own settings and three seeds, and resume. CLUSTER: a scheduler's address.
TRAIN = .venv-train/bin/python -m ltp_switcher.policies
ON_CLUSTER = $(if $(CLUSTER),--cluster $(CLUSTER))

train-ltp: $(STAMPS)/train ## Train LTP and write its weights
	@$(TRAIN).ltp.train --out .cache/train/ltp --seeds 1 2 3 --resume --export policies/ltp/ltp.npz $(ON_CLUSTER)

LTP_VARIANTS = ltp ltp-no-probe oracle astraea sage orca aurora
LTP_SEEDS ?= 1

compare-ltp: $(STAMPS)/train ## Train LTP and its variants with each seed of LTP_SEEDS, and compare them (hours)
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

train-jury: $(STAMPS)/train ## Train Jury and write its weights
	@$(TRAIN).jury.train --out .cache/train/jury --seeds 1 2 3 --choose 1 --resume \
		--export policies/jury/jury.npz $(ON_CLUSTER)

train-spine: $(STAMPS)/train ## Train Spine and Spine-Cubic, and write their weights
	@$(TRAIN).spine.train --out .cache/train/spine --seeds 1 2 3 --resume --export policies/spine/spine.npz $(ON_CLUSTER)
	@$(TRAIN).spine.train --law cubic --out .cache/train/spine-cubic --seeds 1 2 3 --validate-every 3 --resume \
		--export policies/spine/spine-cubic.npz $(ON_CLUSTER)

train-owl: $(STAMPS)/train ## Train Owl and Owl-Loss, and write their weights
	@$(TRAIN).owl.train --out .cache/train/owl --seeds 1 2 3 --resume --export policies/owl/owl.npz $(ON_CLUSTER)
	@$(TRAIN).owl.train --variant owl-loss --out .cache/train/owl-loss --seeds 1 2 3 --resume \
		--export policies/owl/owl-loss.npz $(ON_CLUSTER)

bench-simulator: venv ## Measure the simulator: flow-steps per second
	@$(BIN)/python -m ltp_switcher.policies.simulator.bench

traces: venv ## Fetch recorded cellular traces into .cache/traces (GPL-3, from Debian)
	@$(BIN)/ltp-eval traces

mahimahi: venv ## Unpack mahimahi into .cache/mahimahi (GPL-3, from Debian 11), and check what it needs here
	@.ci/install-packages iptables dnsmasq-base libpangocairo-1.0-0 libxcb-present0
	@$(BIN)/ltp-eval mahimahi

agree: mahimahi kmod traces ## Run cubic and bbr in the lab and through mahimahi, and compare; half an hour, as root
	@$(BIN)/ltp-eval agree

validate-simulator: traces ## Compare the simulator with the lab on the same scenarios
	@PATH=$(CURDIR)/$(BIN):$$PATH; $(BIN)/python -m ltp_switcher.policies.simulator.validate --commands | sh
	@$(BIN)/python -m ltp_switcher.policies.simulator.validate

screenshots: venv $(STAMPS)/all ## Take the pictures of the dashboard for the documentation; six minutes
	@PYTHONPATH=tests $(BIN)/python tests/dashboard/screenshots.py

claims: $(STAMPS)/lab traces ## Test the claims of the learned arms' papers in the lab
	@$(BIN)/ltp-eval claims

eval: $(STAMPS)/lab traces ## Run all schemes on the suite's test paths; resumable, ten hours on 2 cores; out/eval/
	@$(BIN)/ltp-eval suite

studies: $(STAMPS)/lab traces ## Run ablations, lengths of a step and selections of a team on the test paths; hours; out/studies/
	@for study in ablations steps teams; do $(BIN)/ltp-eval suite --study $$study --out out/studies/$$study; done

eval-offsets: $(STAMPS)/lab traces ## Run the rule and the arms on the test set's traces from ten places on; two hours; out/eval-offsets/
	@$(BIN)/ltp-eval draw --offsets 10 --out out/eval-offsets/paths
	@$(BIN)/ltp-eval suite --set out/eval-offsets/paths --schemes rule,vegas,bbr,ltp,cubic --seeds 1 --out out/eval-offsets

eval-quick: $(STAMPS)/lab traces ## Run 5 schemes on 8 of the suite's paths, 30 s each; 20 minutes; out/eval/
	@$(BIN)/ltp-eval suite --quick

gain-coverage: venv ## Simulate 2,000 experiments of each design, and count how often the report is right; an hour
	@$(BIN)/ltp-eval gain-coverage --out out/gain-coverage.json

gain-rollout: venv ## Simulate 1,000 rollouts of each design, with a harm and without, and count how they end; ten minutes
	@$(BIN)/ltp-eval gain-rollout --out out/gain-rollout.json

bench: bench-daemon bench-api bench-kmod bench-lab ## Run all benchmarks

bench-daemon: venv ## Measure the daemon: steps with 5,000 and 10,000 flows, reported at each step or by their RTTs, then the learning policy's decision alone
	@$(BIN)/python -m ltp_switcher.daemon.service.bench
	@$(BIN)/python -m ltp_switcher.daemon.service.bench.decision

bench-api: venv kmod ## Measure daemon and API under load: steps, /health, lists, restarts, the report, a full disk, memory, log; 9 minutes
	@PYTHONPATH=tests $(BIN)/python -m load

bench-fleet: venv $(STAMPS)/all ## Measure hosts that share lessons: second host, latency, faults, a liar, steps, load; 15 minutes (ARGS=--json)
	@PYTHONPATH=tests $(BIN)/python -m fleet $(ARGS)

bench-kmod: venv kmod ## Measure the module: guest instructions per acknowledged packet and per switch
	@$(BIN)/ltp-eval cost
	@PYTHONPATH=tests $(BIN)/python tests/kmod/bench_switch.py

bench-scale: venv kmod ## Measure steps with 10,000 live and 100,000 idle flows, and who looks on; ten minutes (ARGS=--json)
	@PYTHONPATH=tests $(BIN)/python tests/kmod/bench_scale.py $(ARGS)

bench-resume: venv kmod ## Measure the time that Careful Resume saves, by path and size; ten minutes (ARGS="--arms bbr --json")
	@PYTHONPATH=tests $(BIN)/python tests/kmod/bench_resume.py $(ARGS)

bench-lab: venv kmod ## Measure the lab: virtual seconds per wall second, instructions per packet
	@$(BIN)/ltp-eval speed

deb: venv $(STAMPS)/all ## Build the packages for Debian 12 and 13 in dist/, and list their sizes
	@.ci/install-packages debhelper dh-dkms lintian
	@packaging/deb.sh

release: deb ## Build the packages, the wheel and their checksums in dist/
	@$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation -w dist .
	@cd dist && sha256sum -- *.deb *.whl > SHA256SUMS && cat SHA256SUMS

install: ## Install module (DKMS), daemon, API and units on this machine (as root)
	@packaging/install.sh

uninstall: ## Remove them
	@packaging/uninstall.sh

clean: ## Remove out/ (reports too), build/, dist/ and the virtual environments; the cache .cache/ stays
	@rm -rf out build dist $(VENV) .venv-train $(STAMPS)
	@find . -name __pycache__ -prune -not -path './.cache/*' -exec rm -rf {} +
	@$(MAKE) --no-print-directory -C kmod-mutant clean

venv: $(STAMPS)/venv

# The distribution's packages: what Python needs, what the lab needs, and all.
$(STAMPS)/python $(STAMPS)/lab $(STAMPS)/all: $(STAMPS)/%: .ci/apt-packages .ci/install-packages
	@.ci/install-packages $*
	@mkdir -p $(@D) && touch $@

$(STAMPS)/venv: requirements.lock pyproject.toml | $(STAMPS)/python
	@echo "Python packages → $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(LTP_CACHE)/promtool/promtool: .ci/install-promtool | $(STAMPS)/all
	@.ci/install-promtool
	@touch $@

$(LTP_CACHE)/torch/installed: .ci/install-torch | $(STAMPS)/all
	@.ci/install-torch

$(STAMPS)/train: requirements-train.lock | $(STAMPS)/python
	@$(PYTHON) -m venv .venv-train
	@.venv-train/bin/pip install --disable-pip-version-check --require-hashes -r requirements-train.lock
	@.venv-train/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@
