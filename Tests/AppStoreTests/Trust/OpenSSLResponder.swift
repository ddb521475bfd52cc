import AppStore
import Foundation
import HTTP
import JOSE
import SandboxStore
import ServiceKit
import Synchronization
import TestSupport
import Testing

/// A certificate authority whose certificates name a responder, and that responder: `openssl ocsp`, a program
/// that shares no code of ours.
final class OpenSSLResponder: Sendable {
    enum Signer {
        /// The authority that issued the certificate.
        case issuer
        /// A certificate that the issuer made for this, or one that it made for something else.
        case delegate, wrongDelegate
        case stranger
    }

    private let folder: String
    let authority: CertificateAuthority

    /// Valid for ten days around the real time, which `openssl ocsp` lives in.
    init(url: String, hasDelegates: Bool = false) throws {
        folder = FileManager.default.temporaryDirectory.path + "/ocsp-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
        let now = Int64(Date().timeIntervalSince1970 * 1000)
        var profile = CertificateAuthority.Profile(
            validFrom: now - 5 * day, validUntil: now + 5 * day)
        profile.responderURL = url
        authority = try CertificateAuthority(profile)
        let chain = try authority.chainDER()
        for (name, der) in zip(["leaf", "intermediate", "root"], chain) {
            try write(pem(der), "\(name).pem")
        }
        let keys = try authority.issuerKeysPEM()
        try write(keys.root, "root.key")
        try write(keys.intermediate, "intermediate.key")
        let stranger = try CertificateAuthority(profile)
        try write(stranger.rootPEM(), "stranger.pem")
        try write(stranger.issuerKeysPEM().root, "stranger.key")
        guard hasDelegates else { return }
        for (name, usage) in [("delegate", "OCSPSigning"), ("wrongDelegate", "serverAuth")] {
            try write("extendedKeyUsage=\(usage)\nauthorityKeyIdentifier=keyid\n", "\(name).ext")
            try openssl(
                "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                "\(name).key", "-out",
                "\(name).csr", "-subj", "/CN=\(name)")
            try openssl(
                "x509", "-req", "-in", "\(name).csr", "-CA", "intermediate.pem", "-CAkey",
                "intermediate.key", "-out", "\(name).pem", "-days", "2", "-extfile",
                "\(name).ext", "-set_serial", "77")
        }
    }

    deinit {
        // Nothing depends on it being gone.
        try? FileManager.default.removeItem(atPath: folder)
    }

    private func pem(_ der: [UInt8]) -> String {
        let text = Data(der).base64EncodedString(options: .lineLength64Characters)
        return "-----BEGIN CERTIFICATE-----\n\(text)\n-----END CERTIFICATE-----\n"
    }

    private func write(_ text: String, _ name: String) throws {
        try text.write(toFile: "\(folder)/\(name)", atomically: true, encoding: .utf8)
    }

    @discardableResult
    private func openssl(_ arguments: String...) throws -> String {
        try openssl(arguments)
    }

    @discardableResult
    private func openssl(_ arguments: [String]) throws -> String {
        String(
            decoding: try Program.command(["openssl"] + arguments, in: folder), as: UTF8.self)
    }

    /// The answer to a question about the leaf (or the intermediate), valid for a day from now on.
    func answer(
        _ request: [UInt8], about name: String = "leaf", isRevoked: Bool = false,
        isKnown: Bool = true, by signer: Signer = .issuer
    ) throws -> [UInt8] {
        let issuer = name == "leaf" ? "intermediate" : "root"
        let serial = try openssl("x509", "-in", "\(name).pem", "-noout", "-serial")
            .split(separator: "=").last.map { $0.trimmingCharacters(in: .whitespacesAndNewlines) }
        let revoked = isRevoked ? "R\t400101000000Z\t250101000000Z" : "V\t400101000000Z\t"
        let line = "\(revoked)\t\(serial ?? "")\tunknown\t/CN=x\n"
        // Names apart: questions may come at the same time.
        let id = UUID().uuidString
        try write(isKnown ? line : "", "\(id).index")
        try Data(request).write(to: URL(fileURLWithPath: "\(folder)/\(id).req"))
        let signing =
            switch signer {
            case .issuer: issuer
            case .delegate: "delegate"
            case .wrongDelegate: "wrongDelegate"
            case .stranger: "stranger"
            }
        try openssl(
            "ocsp", "-index", "\(id).index", "-CA", "\(issuer).pem", "-rsigner",
            "\(signing).pem", "-rkey", "\(signing).key", "-reqin", "\(id).req", "-respout",
            "\(id).resp", "-ndays", "1")
        return Array(try Data(contentsOf: URL(fileURLWithPath: "\(folder)/\(id).resp")))
    }
}

/// Answers on a real socket as the test says, and counts.
final class ResponderServer: Sendable {
    let requests = Mutex<[[UInt8]]>([])
    let answer = Mutex<HTTPResponse>(HTTPResponse.text(500, "not set\n"))

    func respond(to request: HTTPRequest) -> HTTPResponse {
        guard request.method == "POST", request.path == "/ocsp",
            request.headers["Content-Type"] == "application/ocsp-request"
        else { return .text(400, "no question\n") }
        requests.withLock { $0.append(request.body) }
        return answer.withLock { $0 }
    }

    func say(_ bytes: [UInt8]) {
        var response = HTTPResponse.text(200, "")
        response.headers["Content-Type"] = "application/ocsp-response"
        response.body = bytes
        answer.withLock { $0 = response }
    }

    /// Runs it while `body` does; `body` gets the URL.
    static func run(_ body: @Sendable (ResponderServer, String) async throws -> Void) async throws {
        let responder = ResponderServer()
        let server = try HTTPServer(host: "127.0.0.1", port: 0, log: .silent) {
            responder.respond(to: $0)
        }
        let port = try server.bind()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await server.run() }
            let result: Result<Void, any Error>
            do {
                result = .success(try await body(responder, "http://127.0.0.1:\(port)/ocsp"))
            } catch {
                result = .failure(error)
            }
            group.cancelAll()
            try await group.waitForAll()
            try result.get()
        }
    }
}
