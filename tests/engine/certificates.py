#!/usr/bin/env python3
"""Makes the files for tests of trust: two authorities, certificates by the first, and SuperNodes' keys.

    python certificates.py FOLDER NUMBER_OF_KEYS

The files have no use outside the test, and are not committed.
"""

import datetime
import ipaddress
import pathlib
import sys

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

folder, count = pathlib.Path(sys.argv[1]), int(sys.argv[2])
now = datetime.datetime.now(datetime.timezone.utc)


def named(name):
    return x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, name)])


def certificate(subject, key, issuer, issuer_key, extensions):
    builder = (
        x509.CertificateBuilder()
        .subject_name(named(subject))
        .issuer_name(named(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(issuer_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def private(key, form):
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


authority = (x509.BasicConstraints(ca=True, path_length=None), True)
for name in ["ca", "other"]:
    key = ec.generate_private_key(ec.SECP256R1())
    (folder / f"{name}.pem").write_bytes(certificate(name, key, name, key, [authority]))
    if name == "ca":
        issuer = key

key = ec.generate_private_key(ec.SECP256R1())
address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")])
end = (x509.BasicConstraints(ca=False, path_length=None), True)
(folder / "server.pem").write_bytes(certificate("server", key, "ca", issuer, [(address, False), end]))
(folder / "server.key").write_bytes(private(key, serialization.PrivateFormat.PKCS8))

client = ec.generate_private_key(ec.SECP256R1())
(folder / "client.pem").write_bytes(certificate("client", client, "ca", issuer, [end]))
(folder / "client.key").write_bytes(private(client, serialization.PrivateFormat.PKCS8))

for index in range(count):
    key = ec.generate_private_key(ec.SECP384R1())
    (folder / f"node-{index}").write_bytes(private(key, serialization.PrivateFormat.OpenSSH))
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    (folder / f"node-{index}.pub").write_bytes(public)
