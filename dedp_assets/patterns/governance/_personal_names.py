"""Names of columns that announce a class: words in English, German, French and Spanish."""

from __future__ import annotations

import re

from dedp_assets.patterns.core.classes import Classification

__all__ = ["class_by_name"]

_WORDS: dict[Classification, str] = {
    "secret": "password passwd pwd secret apikey api_key private_key access_key access_token refresh_token auth_token "
    "credential credentials passwort",
    "sensitive": "ssn social_security passport tax_id national_id driver_license driving_licence iban bic swift "
    "bank_account account_number card_number credit_card cc_number cvv cvc salary income wage gehalt diagnosis disease "
    "disability religion ethnicity race sexual_orientation political_opinion blood_type",
    "personal": "email e_mail mail emails mailaddress correo courriel phone mobile telephone tel fax cell msisdn "
    "telefon telefono handy first_name last_name middle_name full_name given_name family_name maiden_name surname "
    "firstname lastname fullname forename vorname nachname apellido nom prenom username user_name login nickname "
    "display_name customer_name contact_name person_name employee_name patient_name holder_name birth birthday "
    "birthdate birth_date dob born geburtsdatum geburtstag ip ip_address ipaddress ip_addr client_ip remote_addr "
    "mac_address street address address_line addr strasse adresse direccion home_address user_id customer_id person_id "
    "patient_id employee_id visitor_id subscriber_id cookie cookie_id device_id advertising_id imei",
    "quasi": "zip zip_code zipcode postcode postal_code plz code_postal gender sex geschlecht age alter_in_years "
    "nationality marital_status occupation job_title user_agent useragent latitude longitude lat lon lng geolocation",
    "free text": "biography bio remark remarks feedback note notes comments free_text freetext message complaint",
}
_FACTS = (
    "count counts total sum rate share ratio type kind status state verified confirmed sent opened clicked provider "
    "template category score valid allowed required enabled length format version at"
)
_TAILS = frozenset(_FACTS.split())
"""Last words of names of facts about a value: a count, a kind, a truth."""
_HEADS = frozenset(("is", "has", "had", "num", "n", "nr", "count", "total", "number", "needs", "avg", "sum"))
_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[^\W\dA-Z_]+|[A-Z]+|\d+")


def class_by_name(name: str) -> tuple[Classification, str]:
    """Return the class announced by a column's name and the announcing word; empty texts without.

    Args:
        name: name of a column or field, in any spelling: ``clientIp``, ``client_ip``, ``CLIENT-IP``.

    Example:
        >>> class_by_name("customerEmail"), class_by_name("email_count"), class_by_name("shipping")
        (('personal', 'email'), ('', ''), ('', ''))
    """
    words = [each.lower() for each in _PARTS.findall(name)]
    if not words or words[0] in _HEADS or words[-1] in _TAILS:
        return "", ""
    stated = f"_{'_'.join(words)}_"
    for classification, known in _KNOWN.items():
        if classification == "free text" and words[-1] == "id":
            break
        if found := next((each for each in known if f"_{each}_" in stated), ""):
            return classification, found
    return "", ""


_KNOWN = {each: sorted(words.split(), key=len, reverse=True) for each, words in _WORDS.items()}
