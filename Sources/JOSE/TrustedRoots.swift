internal import FoundationEssentials
internal import ServiceKit

/// The root certificates that we trust, and nothing else: the system's are not consulted.
package struct TrustedRoots: Sendable {
    /// The most files that a folder may hold, and the most bytes of one.
    private static let filesMax = 100
    private static let bytesMax = 1 << 20
    private static let suffixes = [".cer", ".crt", ".der", ".pem"]

    let certificates: [Certificate]

    /// How many roots there are; at least one.
    package var count: Int { certificates.count }

    /// The identity of the set, whatever files the roots came from.
    var fingerprints: Set<[UInt8]> { Set(certificates.map(\.fingerprint)) }

    /// Whether a certificate with this SHA-256 of its DER, 64 hexadecimal digits, is among them.
    package func holds(sha256 fingerprint: String) -> Bool {
        fingerprints.contains { Hex.text(of: $0) == fingerprint }
    }

    /// When the first root expires, in UNIX seconds; nil where a root's dates cannot be read.
    package var firstEnd: Int64? {
        let ends = certificates.compactMap { $0.validity?.upperBound }
        return ends.count == certificates.count ? ends.min() : nil
    }

    private init(checking certificates: [Certificate], from source: String) throws(JOSEError) {
        guard !certificates.isEmpty else {
            throw JOSEError(.noRoots, "no certificate in \(source)")
        }
        guard certificates.allSatisfy(\.isAuthority) else {
            throw JOSEError(.noRoots, "\(source) holds a certificate that is not an authority's")
        }
        self.certificates = certificates
    }

    /// Parses DER certificates; throws where one does not parse or is not an authority's.
    package init(der: [[UInt8]]) throws(JOSEError) {
        var certificates: [Certificate] = []
        for bytes in der {
            guard let certificate = Certificate(der: bytes) else {
                throw JOSEError(.certificate, "a root is not a DER certificate")
            }
            certificates.append(certificate)
        }
        try self.init(checking: certificates, from: "the given list")
    }

    /// Reads a file, or each `.cer`, `.crt`, `.der` and `.pem` file of a folder; DER or PEM.
    package init(certificatesIn path: String) throws(JOSEError) {
        var certificates: [Certificate] = []
        for file in try Self.files(at: path) {
            certificates += try Self.certificates(inFile: file)
        }
        try self.init(checking: certificates, from: path)
    }

    private static func files(at path: String) throws(JOSEError) -> [String] {
        var isFolder = false
        guard FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) else {
            throw JOSEError(.file, "\(path) does not exist")
        }
        guard isFolder else { return [path] }
        let names: [String]
        do {
            names = try FileManager.default.contentsOfDirectory(atPath: path)
        } catch {
            throw JOSEError(.file, "the folder \(path) cannot be read")
        }
        let found = names.sorted().filter { name in
            suffixes.contains { name.lowercased().hasSuffix($0) }
        }
        guard found.count <= filesMax else {
            throw JOSEError(.file, "\(path) holds more than \(filesMax) certificate files")
        }
        return found.map { "\(path)/\($0)" }
    }

    private static func certificates(inFile path: String) throws(JOSEError) -> [Certificate] {
        guard let data = FileManager.default.contents(atPath: path) else {
            throw JOSEError(.file, "\(path) cannot be read")
        }
        guard data.count <= bytesMax else {
            throw JOSEError(.file, "\(path) is larger than \(bytesMax) bytes")
        }
        let bytes = [UInt8](data)
        if let certificate = Certificate(der: bytes) { return [certificate] }
        let found = Certificate.all(pem: bytes)
        guard !found.isEmpty else {
            throw JOSEError(.certificate, "\(path) is neither a DER nor a PEM certificate")
        }
        return found
    }
}
