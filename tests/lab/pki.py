"""The keys and certificates of one lab run: a CA, and whatever it signs, made on demand."""

import base64
import datetime
import ipaddress
import json
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALID_FROM = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
_VALID_UNTIL = datetime.datetime(2120, 1, 1, tzinfo=datetime.UTC)


class Pki:
    """A CA with its files in one folder; certificates are named files `NAME.crt` and `NAME.key` beside it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _subject("lab-ca", ())
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        certificate = (
            self._builder(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.ca.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    @property
    def ca(self) -> Path:
        return self.folder / "ca.crt"

    def server(
        self, name: str, *, hosts: Sequence[str], user: str = "", groups: Sequence[str] = ()
    ) -> tuple[Path, Path]:
        """Certificate and key of a server that answers to these names and addresses."""
        names = [_general_name(host) for host in hosts]
        return self._issue(name, user or name, groups, ExtendedKeyUsageOID.SERVER_AUTH, names)

    def client(self, name: str, *, user: str, groups: Sequence[str] = ()) -> tuple[Path, Path]:
        """Certificate and key of a user, whose groups Kubernetes reads from the organisations."""
        return self._issue(name, user, groups, ExtendedKeyUsageOID.CLIENT_AUTH, [])

    def key_pair(self, name: str) -> tuple[Path, Path]:
        """A bare key and its public half, as service-account tokens are signed with."""
        key = ec.generate_private_key(ec.SECP256R1())
        public, private = self.folder / f"{name}.pub", self.folder / f"{name}.key"
        public.write_bytes(
            key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
        private.write_bytes(_private_pem(key))
        return public, private

    def kubeconfig(self, name: str, *, url: str, user: str, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig for this identity, with everything embedded; JSON, which is YAML too."""
        certificate, key = self.client(name, user=user, groups=groups)
        path = self.folder / f"{name}.kubeconfig"
        cluster = {"server": url, "certificate-authority-data": _base64(self.ca)}
        identity = {"client-certificate-data": _base64(certificate), "client-key-data": _base64(key)}
        path.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "lab", "cluster": cluster}],
                    "users": [{"name": "user", "user": identity}],
                    "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "user"}}],
                    "current-context": "lab",
                }
            )
        )
        return path

    def _issue(
        self,
        name: str,
        user: str,
        groups: Sequence[str],
        usage: x509.ObjectIdentifier,
        hosts: list[x509.GeneralName],
    ) -> tuple[Path, Path]:
        certificate, private = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(_subject(user, groups), key.public_key()).add_extension(
            x509.ExtendedKeyUsage([usage]), critical=False
        )
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        signed = builder.add_extension(authority, critical=False).sign(self._key, hashes.SHA256())
        certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        private.write_bytes(_private_pem(key))
        return certificate, private

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(_VALID_FROM)
            .not_valid_after(_VALID_UNTIL)
        )


def _subject(user: str, groups: Sequence[str]) -> x509.Name:
    organisations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organisations, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
