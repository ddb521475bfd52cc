"""Signs what the App Store would sign: compact JWS with ES256, by the leaf key of a simulated App Store's chain.

The arithmetic of P-256 stands here in plain integers, since the standard library has none. It is for tests only: it takes
no care to hide the key."""

import base64
import hashlib
import json
import re

PRIME = 2**256 - 2**224 + 2**192 + 2**96 - 1
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
BASE = (0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
        0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5)


def _double(point):
    x, y, z = point
    if not y:
        return (0, 1, 0)
    square = y * y % PRIME
    across = 4 * x * square % PRIME
    slope = 3 * (x - z * z) * (x + z * z) % PRIME
    new_x = (slope * slope - 2 * across) % PRIME
    new_y = (slope * (across - new_x) - 8 * square * square) % PRIME
    return (new_x, new_y, 2 * y * z % PRIME)


def _add(one, other):
    """The sum of a point and one with z = 1; the two are different, or the first is nothing."""
    x1, y1, z1 = one
    x2, y2 = other
    if not z1:
        return (x2, y2, 1)
    square = z1 * z1 % PRIME
    run = (x2 * square - x1) % PRIME
    rise = (y2 * square * z1 - y1) % PRIME
    if not run:
        return _double(one) if not rise else (0, 1, 0)
    run2 = run * run % PRIME
    run3 = run2 * run % PRIME
    new_x = (rise * rise - run3 - 2 * x1 * run2) % PRIME
    new_y = (rise * (x1 * run2 - new_x) - y1 * run3) % PRIME
    return (new_x, new_y, z1 * run % PRIME)


def _plain(point):
    x, y, z = point
    inverse = pow(z, -1, PRIME)
    square = inverse * inverse % PRIME
    return (x * square % PRIME, y * square * inverse % PRIME)


def _tables():
    """For each of 64 digits of a number in base 16, the point for each value of the digit."""
    tables, step = [], BASE
    for _ in range(64):
        row, sum_so_far = [None], (0, 1, 0)
        for _ in range(15):
            sum_so_far = _add(sum_so_far, step)
            row.append(_plain(sum_so_far))
        tables.append(row)
        step = _plain(_add(sum_so_far, step))
    return tables


TABLES = _tables()


def multiple(number):
    """The point BASE times `number`."""
    point = (0, 1, 0)
    for table in TABLES:
        digit = number & 15
        if digit:
            point = _add(point, table[digit])
        number >>= 4
    return _plain(point)


def _base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _der_of(pem, what):
    found = re.findall(rf"-----BEGIN {what}-----\s(.*?)-----END {what}-----", pem, re.DOTALL)
    return [base64.b64decode(body) for body in found]


class Signer:
    """Reads the chain and the key that `appstore-sandbox seed` has made in a folder."""

    def __init__(self, folder):
        certificates = []
        for name in ["leaf", "intermediate", "root"]:
            with open(f"{folder}/{name}.pem", encoding="ascii") as file:
                certificates += _der_of(file.read(), "CERTIFICATE")
        with open(f"{folder}/authority.pem", encoding="ascii") as file:
            keys = _der_of(file.read(), "PRIVATE KEY")
        self.secret = self._key_of(certificates[0], keys)
        chain = [base64.b64encode(each).decode() for each in certificates]
        self.header = _base64url(json.dumps({"alg": "ES256", "x5c": chain}).encode())

    @staticmethod
    def _key_of(leaf, keys):
        """The key whose public point stands in the leaf certificate."""
        for key in keys:
            # In PKCS #8 the secret number follows these bytes: version 1, an octet string of 32.
            at = key.find(b"\x02\x01\x01\x04\x20")
            if at < 0:
                continue
            secret = int.from_bytes(key[at + 5:at + 37], "big")
            x, y = multiple(secret)
            if x.to_bytes(32, "big") + y.to_bytes(32, "big") in leaf:
                return secret
        raise ValueError("authority.pem holds no key of leaf.pem")

    def sign(self, payload):
        text = f"{self.header}.{_base64url(json.dumps(payload, separators=(',', ':')).encode())}"
        digest = hashlib.sha256(text.encode()).digest()
        # A number that depends on key and text alone, so that the same payload is signed with the same bytes.
        once = int.from_bytes(hashlib.sha512(self.secret.to_bytes(32, "big") + digest).digest(), "big") % ORDER
        r = multiple(once)[0] % ORDER
        s = pow(once, -1, ORDER) * (int.from_bytes(digest, "big") + r * self.secret) % ORDER
        return f"{text}.{_base64url(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"
