# SPDX-License-Identifier: Apache-2.0
"""The declarations of the learned arms: the committed ones, and the errors of wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from ltp_switcher.daemon.datapath.protocol import ArmId
from ltp_switcher.errors import ArtifactError, InvalidValueError
from ltp_switcher.policies.runtime.declaration import Law, declaration, declarations

GOOD = """summary = "An arm."
[[variant]]
name = "arm"
law = "cubic"
[[variant]]
name = "arm-two"
law = "window"
weights = "two.npz"
"""


def written(tmp_path: Path, text: str, name: str = "arm") -> Path:
    folder = tmp_path / "policies" / name
    folder.mkdir(parents=True)
    (folder / "arm.toml").write_text(text)
    return folder


def test_every_arm_has_an_id_a_summary_and_its_weights() -> None:
    assert set(declarations()) == {"ltp", "jury", "spine", "owl"}
    for name, arm in declarations().items():
        assert arm.name == name.lower()
        assert ArmId[name.upper()] > ArmId.ILLINOIS
        assert len(arm.summary) > 20
        for variant in arm.variants:
            assert variant.networks()


def test_an_arm_executes_the_laws_of_its_variants(tmp_path: Path) -> None:
    folder = written(tmp_path, GOOD)
    arm = declaration(folder)
    assert arm.laws == (Law.WINDOW, Law.CUBIC)
    assert [v.weights for v in arm.variants] == [None, folder / "two.npz"]
    assert arm.variant("arm-two").law is Law.WINDOW
    with pytest.raises(InvalidValueError, match=r"variant of arm: 'three'.*arm, arm-two"):
        arm.variant("three")
    with pytest.raises(ArtifactError, match="no weights"):
        arm.variants[0].networks()
    with pytest.raises(ArtifactError, match=r"two\.npz"):
        arm.variants[1].networks()


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("summary =", "sumary =", ["policies/arm/arm.toml.sumary", "summary, variant"]),
        ('summary = "An arm."\n', "", ["arm.toml.summary", "required"]),
        ('"An arm."', "3", ["arm.toml.summary", "3", "one line"]),
        ('"cubic"', '"vegas"', ["variant[0].law", "'vegas'", "window, aimd, cubic"]),
        ('"arm"', '"army"', ["variant[0].name", "'army'", "the arm's name, arm"]),
        ('"arm-two"', '"Arm 2"', ["variant[1].name", "'Arm 2'", "small letters"]),
        ('"arm-two"', '"arm"', ["variant.name", "'arm'", "each name once"]),
        ("weights =", "weigths =", ["variant[1].weigths", "name, law, weights"]),
        ('law = "window"\n', "", ["variant[1].law", "required"]),
        ("[[variant]]", "[variant", ["arm.toml", "a TOML file"]),
    ],
)
def test_what_is_wrong_names_key_value_and_what_is_allowed(
    tmp_path: Path, old: str, new: str, expected: list[str]
) -> None:
    assert old in GOOD
    folder = written(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(InvalidValueError) as caught:
        declarations(folder.parent)
    for words in expected:
        assert words in str(caught.value)


@pytest.mark.parametrize("name", ["Arm", "an_arm", "fourteenletter"])
def test_a_folder_must_be_named_as_the_kernel_can(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidValueError, match=f"{name}.*1 to 13 small letters"):
        declaration(written(tmp_path, GOOD, name))


def test_two_arms_cannot_share_a_variant(tmp_path: Path) -> None:
    written(tmp_path, GOOD)
    folder = written(tmp_path, GOOD.replace('"arm"', '"other"'), "other")
    with pytest.raises(InvalidValueError, match=r"'arm-two'.*each name once"):
        declarations(folder.parent)
