"""Forms of values that lead to persons, with the checks of the standards."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from ipaddress import ip_address

from dedp_assets.patterns.core.classes import Classification

__all__ = ["FORMS", "form_of", "holds_form"]

FORMS: Mapping[str, Classification] = {
    "e-mail": "personal",
    "IP address": "personal",
    "IBAN": "sensitive",
    "card number": "sensitive",
    "phone number": "personal",
}
"""Form of a value -> class of a column of such values."""
_LONGEST = 400
_EMAIL = r"[A-Za-z0-9._%+'-]{1,64}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z]{2,24}"
_IBAN = r"[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]){11,30}"
_IPV4 = r"(?:[0-9]{1,3}\.){3}[0-9]{1,3}"
_IS_EMAIL, _IS_IBAN = re.compile(_EMAIL), re.compile(_IBAN, re.IGNORECASE)
_IS_CARD = re.compile(
    r"[2-6][0-9]{3}(?:[ -]?[0-9]{4}){2,3}(?:[ -]?[0-9]{1,3})?|3[47][0-9]{2}[ -]?[0-9]{6}[ -]?[0-9]{5}"
)
_IS_PHONE = re.compile(r"(?P<plus>\+|00)?[ (]*[0-9][0-9 ()/.-]{5,22}[0-9]")
_NO_PHONE = re.compile(
    r"[0-9]{4}[./-][0-9]{1,2}[./-][0-9]{1,2}(?:[T ].*)?|[0-9]{1,2}[./-][0-9]{1,2}[./-][0-9]{2,4}"  # dates
    r"|[0-9]+\.[0-9]+|[0-9]{5}-[0-9]{4}|[0-9]{4}-[0-9]{4}"  # decimals, postcodes of the USA, spans of years
)
_IN_TEXT = re.compile(rf"(?<![\w@.])(?:{_EMAIL}|{_IPV4}|{_IBAN})(?![\w@])")
_MODULUS, _REMAINDER = 97, 1
_PHONE_DIGITS = range(8, 16)


def form_of(text: str) -> str:
    """Return the form of a whole value, as of :data:`FORMS`; empty for another value.

    Args:
        text: the value; spaces around it are ignored.

    Example:
        >>> form_of("ada@example.org"), form_of("DE89 3704 0044 0532 0130 00"), form_of("DE89370400440532013001")
        ('e-mail', 'IBAN', '')
    """
    stated = text.strip()
    if not stated or len(stated) > _LONGEST:
        return ""
    return next((form for form, fits in _CHECKS.items() if fits(stated)), "")


def holds_form(text: str) -> bool:
    """Return whether a longer text contains an e-mail, an IP address or an IBAN."""
    found = (each.group() for each in _IN_TEXT.finditer(text))
    return any(_is_email(each) or _is_ip(each) or _is_iban(each) for each in found)


def _is_email(text: str) -> bool:
    return _IS_EMAIL.fullmatch(text) is not None


def _is_ip(text: str) -> bool:
    if not ("." in text or ":" in text):
        return False
    try:
        return ip_address(text.partition("%")[0]) is not None
    except ValueError:
        return False


def _is_iban(text: str) -> bool:
    """Hold an IBAN against the check digits (ISO 13616: the number is 1 modulo 97)."""
    if _IS_IBAN.fullmatch(text) is None:
        return False
    plain = text.replace(" ", "").upper()
    return int("".join(str(int(each, 36)) for each in plain[4:] + plain[:4])) % _MODULUS == _REMAINDER


def _is_card(text: str) -> bool:
    """Hold a card number against the last digit (Luhn, ISO/IEC 7812)."""
    if _IS_CARD.fullmatch(text) is None:
        return False
    digits = [int(each) for each in reversed(text) if each.isdigit()]
    doubled = [sum(divmod(2 * each, 10)) for each in digits[1::2]]
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0 and len(set(digits)) > 1


def _is_phone(text: str) -> bool:
    """Take a number with a prefix of a country or with separators; a bare number may count anything."""
    found = _IS_PHONE.fullmatch(text)
    if found is None or _NO_PHONE.fullmatch(text):
        return False
    digits = sum(each.isdigit() for each in text)
    return digits in _PHONE_DIGITS and (found["plus"] is not None or digits < len(text))


_CHECKS: Mapping[str, Callable[[str], bool]] = {
    "e-mail": _is_email,
    "IP address": _is_ip,
    "IBAN": _is_iban,
    "card number": _is_card,
    "phone number": _is_phone,
}
