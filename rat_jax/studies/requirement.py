"""What a requirement says: "p_G[new] - p_G[old] > -0.01 with 0.95", read into its parts.

A sentence comes in, quantities with their factors, a bound and a probability go out; or one error that says what was
expected and where. What the names stand for is not known here.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

EXAMPLE = "p_G[new] - p_G[old] > -0.01 with 0.95"

HOLDS: dict[str, Callable[[Any, Any], Any]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}
_AS_PRINTED = {"\u2212": ("sign", "-"), "\u2265": ("relation", ">="), "\u2264": ("relation", "<=")}
_TOKENS = re.compile(
    r"""(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.,%]))
      | (?P<name>[A-Za-z_]\w*(?:\.[^\s\[\]<>*]+)?)  # a judge's name, after the dot, may hold a hyphen
      | (?P<relation>[<>]=?)
      | (?P<sign>[+-])
      | (?P<times>\*)
    """,
    re.VERBOSE,
)
_BLANKS = re.compile(r"\s*")


@dataclass(frozen=True)
class Term:
    """A quantity, what stands in the brackets behind it, and the factor before it."""

    times: float
    name: str
    brackets: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name + "".join(f"[{inside}]" for inside in self.brackets)


@dataclass(frozen=True)
class Sentence:
    """A requirement, its quantities brought to the left and its numbers to the right.

    relation: one of >, <, >=, <=. needed: the probability in (0, 1) that the sentence needs.
    """

    text: str
    terms: tuple[Term, ...]
    relation: str
    bound: float
    needed: float


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    at: int


def read_requirement(text: str) -> Sentence:
    """The parts of one requirement. Raises ValueError, which says where, for what is none.

    >>> read_requirement("p_G[new] > p_G[old] - 0.01 with 0.95").bound
    -0.01
    """
    if not isinstance(text, str):
        raise ValueError(f'requirement: expected a sentence such as "{EXAMPLE}", found {text!r}')
    return _Reader(text).sentence()


def read_requirements(path: Path) -> list[str]:
    """The requirements in a text file, one a line; empty lines, and what follows a # outside brackets, do not count.

    Raises OSError for a file that cannot be read, and ValueError, with the line, for what is no requirement; also where
    there is none at all.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: expected a text file in UTF-8, found other bytes") from error
    except OSError as error:
        raise type(error)(f"cannot read the requirements in {path}: {error.strerror or error}") from error
    found = []
    for number, line in enumerate(lines, start=1):
        if sentence := _without_comment(line).strip():
            try:
                read_requirement(sentence)
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: {error}") from error
            found.append(sentence)
    if not found:
        raise ValueError(f'{path}: expected requirements, one a line, such as "{EXAMPLE}"; found none')
    return found


def _without_comment(line: str) -> str:
    depth = 0
    for at, character in enumerate(line):
        depth += (character == "[") - (character == "]")
        if character == "#" and depth <= 0:
            return line[:at]
    return line


class _Reader:
    """Goes through a sentence from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        self.at = 0
        self.token = self._read()

    def sentence(self) -> Sentence:
        left, before = self._side()
        relation = self._take("relation", "+, -, > or <").text
        right, after = self._side()
        if self.token.kind == "relation":
            self._refuse("'with' and a probability (for a bound on both sides write two requirements)")
        self._take("with", "'with' and a probability, such as with 0.95")
        needed = self._probability()
        if self.token.kind != "end":
            self._refuse("nothing more")
        terms = (*left, *(Term(-term.times, term.name, term.brackets) for term in right))
        if not terms:
            raise ValueError(f"{self._where()}: expected a quantity such as p_G, found numbers only")
        return Sentence(self.text, terms, relation, math.fsum((*after, *(-value for value in before))), needed)

    def _side(self) -> tuple[Sequence[Term], Sequence[float]]:
        """The quantities and the numbers that are added up before the next relation or `with`."""
        terms: list[Term] = []
        numbers: list[float] = []
        while True:
            factor = -1.0 if self.token.kind == "sign" and self.token.text == "-" else 1.0
            if self.token.kind == "sign":
                self._next()
            elif terms or numbers:
                return terms, numbers
            if self.token.kind == "number":
                factor *= self._number()
                if self.token.kind != "times":
                    numbers.append(factor)
                    continue
                self._next()
            terms.append(self._quantity(factor))

    def _quantity(self, factor: float) -> Term:
        name = self._take("name", "a quantity such as p_G[new], or a number").text
        brackets = []
        while self.token.kind == "brackets":
            brackets.append(self._next().text[1:-1])
        return Term(factor, name, tuple(brackets))

    def _number(self) -> float:
        if not math.isfinite(value := float(self.token.text)):
            self._refuse("a finite number")
        self._next()
        return value

    def _probability(self) -> float:
        token = self.token
        if token.kind != "number":
            self._refuse("a probability such as 0.95 after 'with'")
        value = self._number()
        if not 0 < value < 1:
            hint = f"; for {value:g} % write {value / 100:g}" if 1 < value < 100 else ""
            raise ValueError(
                f"{self._where()}: expected a probability above 0 and below 1 after 'with', found {token.text}{hint}"
            )
        return value

    def _take(self, kind: str, expected: str) -> _Token:
        if self.token.kind != kind:
            self._refuse(expected)
        return self._next()

    def _next(self) -> _Token:
        """The token at hand; the one after it is at hand from now on."""
        taken, self.token = self.token, self._read()
        return taken

    def _read(self) -> _Token:
        blanks = _BLANKS.match(self.text, self.at)
        at = self.at = blanks.end() if blanks else self.at
        if at == len(self.text):
            return _Token("end", "", at)
        if self.text[at] == "[":
            kind, self.at = "brackets", self._closing(at)
        elif self.text[at] in _AS_PRINTED:
            self.at += 1
            return _Token(*_AS_PRINTED[self.text[at]], at)
        elif found := _TOKENS.match(self.text, at):
            kind, self.at = str(found.lastgroup), found.end()
        else:
            kind, self.at = "unknown", at + len(self.text[at:].split()[0])
        text = self.text[at : self.at]
        return _Token("with" if kind == "name" and text.lower() == "with" else kind, text, at)

    def _closing(self, at: int) -> int:
        """The place behind the bracket that closes the one at `at`; brackets inside come in pairs."""
        depth = 0
        for place in range(at, len(self.text)):
            depth += (self.text[place] == "[") - (self.text[place] == "]")
            if depth == 0:
                return place + 1
        raise ValueError(f"{self._where()}: the bracket at character {at + 1} is not closed; add ]")

    def _refuse(self, expected: str) -> NoReturn:
        found = repr(self.token.text) if self.token.text else "the end"
        raise ValueError(
            f'{self._where()}: expected {expected} at character {self.token.at + 1}, found {found}; the shape is "'
            f'{EXAMPLE}"'
        )

    def _where(self) -> str:
        return f"requirement {self.text!r}"
