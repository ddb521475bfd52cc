import COpenSSL
import Glibc

/// A server's certificate chain (leaf first) and its key, both PEM.
package struct ServerIdentity: Sendable {
    package let certificateChainPEM: String
    package let privateKeyPEM: String

    package init(certificateChainPEM: String, privateKeyPEM: String) {
        self.certificateChainPEM = certificateChainPEM
        self.privateKeyPEM = privateKeyPEM
    }
}

/// Why a certificate, key or CA file cannot be used.
struct TLSContextError: Error {
    let reason: String
}

/// Settings shared by all TLS sessions of one client or server.
///
/// Unchecked: an SSL_CTX counts its references atomically and may make sessions on any thread once
/// it is configured; here it is only configured inside the initialisers.
final class TLSContext: @unchecked Sendable {
    private let context: OpaquePointer

    private init(method: OpaquePointer?) throws(TLSContextError) {
        ERR_clear_error()
        guard let context = SSL_CTX_new(method) else {
            throw TLSContextError(reason: OpenSSLErrors.take())
        }
        self.context = context
        shim_SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION)
        // Partial writes show how far a request got, and a retried write may come from a moved array.
        shim_SSL_CTX_set_mode(
            context, Int(SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER))
    }

    deinit {
        SSL_CTX_free(context)
    }

    /// Trusts the system's certificate authorities and those in `extraCAFile` (PEM).
    convenience init(trustingSystemAnd extraCAFile: String?) throws(TLSContextError) {
        try self.init(method: TLS_client_method())
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nil)
        SSL_CTX_set_default_verify_paths(context)
        guard let extraCAFile else { return }
        // On a named pipe OpenSSL would wait for a writer for ever.
        var status = stat()
        guard stat(extraCAFile, &status) != 0 || status.st_mode & S_IFMT == S_IFREG else {
            throw TLSContextError(reason: "CA file \(extraCAFile) is no file of certificates")
        }
        guard SSL_CTX_load_verify_locations(context, extraCAFile, nil) == 1 else {
            throw TLSContextError(
                reason: "CA file \(extraCAFile) cannot be used: \(OpenSSLErrors.take())")
        }
    }

    /// Presents an identity to clients.
    convenience init(identity: ServerIdentity) throws(TLSContextError) {
        try self.init(method: TLS_server_method())
        let chain = Self.certificates(identity.certificateChainPEM)
        defer { for certificate in chain { X509_free(certificate) } }
        guard let leaf = chain.first, SSL_CTX_use_certificate(context, leaf) == 1 else {
            throw TLSContextError(reason: "no usable certificate: \(OpenSSLErrors.take())")
        }
        for certificate in chain.dropFirst() {
            // This is the macro SSL_CTX_add1_chain_cert, which takes its own reference.
            let added = SSL_CTX_ctrl(
                context, SSL_CTRL_CHAIN_CERT, 1, UnsafeMutableRawPointer(certificate))
            guard added == 1 else { throw TLSContextError(reason: OpenSSLErrors.take()) }
        }
        try useKey(identity.privateKeyPEM)
    }

    private func useKey(_ pem: String) throws(TLSContextError) {
        guard
            let key = Self.withMemoryBIO(pem, { PEM_read_bio_PrivateKey($0, nil, nil, nil) })
        else {
            throw TLSContextError(reason: "the private key cannot be read: \(OpenSSLErrors.take())")
        }
        defer { EVP_PKEY_free(key) }
        guard SSL_CTX_use_PrivateKey(context, key) == 1, SSL_CTX_check_private_key(context) == 1
        else {
            throw TLSContextError(
                reason: "the private key does not fit the certificate: \(OpenSSLErrors.take())")
        }
    }

    private static func certificates(_ pem: String) -> [OpaquePointer] {
        let chain = withMemoryBIO(pem) { bio in
            var chain: [OpaquePointer] = []
            while let certificate = PEM_read_bio_X509(bio, nil, nil, nil) {
                chain.append(certificate)
            }
            // Reading stops with "no start line" at the end of the text, which is no error.
            ERR_clear_error()
            return chain
        }
        return chain ?? []
    }

    /// The result of `read` on a text; nil also where OpenSSL has no memory.
    private static func withMemoryBIO<T>(_ text: String, _ read: (OpaquePointer) -> T?) -> T? {
        Array(text.utf8).withUnsafeBytes { bytes in
            guard let bio = BIO_new_mem_buf(bytes.baseAddress, Int32(clamping: bytes.count)) else {
                return nil
            }
            defer { BIO_free(bio) }
            return read(bio)
        }
    }

    /// A session for one accepted connection.
    func serverSession() throws(StreamError) -> OpaquePointer {
        guard let session = SSL_new(context) else { throw StreamError.tls(OpenSSLErrors.take()) }
        return session
    }

    /// A session that accepts only a peer certified for `host`, a name or an IP address.
    func clientSession(host: String, isAddress: Bool) throws(StreamError) -> OpaquePointer {
        guard let session = SSL_new(context) else { throw StreamError.tls(OpenSSLErrors.take()) }
        let isSet: Bool
        if isAddress {
            isSet = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session), host) == 1
        } else {
            SSL_set_hostflags(session, UInt32(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS))
            isSet =
                SSL_set1_host(session, host) == 1
                && shim_SSL_set_tlsext_host_name(session, host) == 1
        }
        guard isSet else {
            SSL_free(session)
            throw StreamError.tls(OpenSSLErrors.take())
        }
        return session
    }
}

/// OpenSSL's error queue as text.
enum OpenSSLErrors {
    /// The oldest error of this thread, in words; the queue is empty afterwards.
    static func take() -> String {
        let code = ERR_get_error()
        ERR_clear_error()
        guard code != 0 else { return "the peer closed the connection without notice" }
        // OpenSSL 3 marks an error of the system with this bit, and has no words for it.
        let systemError: UInt = 0x8000_0000
        if code & systemError != 0, let number = Int32(exactly: code & ~systemError) {
            return String(cString: strerror(number))
        }
        guard let reason = ERR_reason_error_string(code) else { return "OpenSSL error \(code)" }
        return String(cString: reason)
    }
}
