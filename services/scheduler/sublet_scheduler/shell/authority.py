"""Certificates as values: two CAs with staggered ends, and leaves that the first of them signs.

Both CAs are trusted long before they sign, so that a rotation changes who signs and never, at once, what is
trusted: no step of it has to wait for anybody.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sublet.model.errors import BadRequest

CA_DAYS = 730
ROTATE_DAYS = 365
"""A CA signs until so much of its life is left; the following one then becomes the signer."""
LEAF_DAYS = 30
SKEW = timedelta(hours=1)
"""How far the clock of an API server may be behind ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A certificate and its key, both PEM."""

    cert: bytes
    key: bytes

    @property
    def expires(self) -> datetime:
        return x509.load_pem_x509_certificate(self.cert).not_valid_after_utc


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """Who signs, who will sign next, and the certificate of who signed before."""

    current: Pair
    following: Pair
    previous_cert: bytes = b""

    @property
    def bundle(self) -> bytes:
        """What the API server shall trust."""
        return self.current.cert + self.following.cert + self.previous_cert


def new_authority(now: datetime) -> Authority:
    return Authority(current=_make_ca(now, days=CA_DAYS), following=_make_ca(now, days=CA_DAYS + ROTATE_DAYS))


def rotated(authority: Authority, now: datetime) -> Authority:
    """The authority as it should be now; the same where nothing is due."""
    if authority.current.expires - now > timedelta(days=CA_DAYS - ROTATE_DAYS):
        return authority
    return Authority(
        current=authority.following,
        following=_make_ca(now, days=CA_DAYS + ROTATE_DAYS),
        previous_cert=authority.current.cert,
    )


def to_secret(authority: Authority) -> dict[str, bytes]:
    return {
        "ca.crt": authority.current.cert,
        "ca.key": authority.current.key,
        "next.crt": authority.following.cert,
        "next.key": authority.following.key,
        "previous.crt": authority.previous_cert,
        "bundle.crt": authority.bundle,
    }


def from_secret(data: Mapping[str, bytes]) -> Authority:
    """Raises BadRequest where the secret is not one of ours."""
    try:
        authority = Authority(
            current=Pair(cert=data["ca.crt"], key=data["ca.key"]),
            following=Pair(cert=data["next.crt"], key=data["next.key"]),
            previous_cert=data.get("previous.crt", b""),
        )
        for pair in (authority.current, authority.following):
            _key_of(pair)
    except (KeyError, ValueError, TypeError) as error:
        raise BadRequest(
            f"the secret of the webhook's CA cannot be read: {error!r}", hint="Delete it; a new one is made"
        ) from error
    return authority


def sign_leaf(authority: Authority, names: Sequence[str], now: datetime) -> Pair:
    """A server certificate for DNS names and addresses."""
    issuer = x509.load_pem_x509_certificate(authority.current.cert)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])]), key, now, LEAF_DAYS)
        .issuer_name(issuer.subject)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(
                issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
            ),
            critical=False,
        )
    )
    return _sign(builder, key, _key_of(authority.current))


def _make_ca(now: datetime, *, days: int) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"sublet-webhook-ca {now:%Y-%m-%d}+{days}d")])
    builder = (
        _builder(name, key, now, days)
        .issuer_name(name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
    )
    return _sign(builder, key, key)


def _builder(
    subject: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _sign(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey
) -> Pair:
    return Pair(
        cert=builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM),
        key=key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


def _key_of(pair: Pair) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pair.key, password=None)
    public = x509.load_pem_x509_certificate(pair.cert).public_key()
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != public:
        raise ValueError("certificate and key do not belong together")
    return key


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(*, digital_signature: bool = False, key_cert_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        crl_sign=key_cert_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
