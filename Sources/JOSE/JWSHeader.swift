internal import JSON

/// The protected header of a JWS, read by RFC 7515 section 4: one JSON object, each name once, since two
/// readers of one header must not see two algorithms.
///
/// Other members (`typ`, `kid`, `jku`, `jwk`, `x5u` …) are ignored: the key comes from the verified chain only.
struct JWSHeader {
    /// Certificates of the App Store's size are about 1 KB each.
    private static let limits = JSONDocument.Limits(
        bytesMax: 64 << 10, depthMax: 16, valuesMax: 256)

    /// The algorithm; nil where `alg` is missing or not a text.
    let algorithm: String?
    /// The certificates; nil where `x5c` is missing or not a list of texts.
    let certificates: [String]?
    /// Whether the header has critical extensions: those that we do not know must be refused (RFC 7515, section
    /// 4.1.11).
    let isCritical: Bool

    init(json bytes: [UInt8]) throws(JOSEError) {
        guard let json = JSONDocument.read(bytes, limits: Self.limits), json.kind == .object else {
            throw JOSEError(.header, "the header is no JSON object of at most 64 KB")
        }
        var names: Set<String?> = []
        var isUnique = true
        json.forEachMember { name, _ in
            isUnique = names.insert(name.text).inserted && isUnique
        }
        guard isUnique else { throw JOSEError(.header, "the header holds a name twice") }
        algorithm = json["alg"]?.text
        isCritical = json["crit"] != nil
        let elements = json["x5c"]?.elements
        let texts = elements?.compactMap(\.text)
        certificates = texts?.count == elements?.count ? texts : nil
    }
}
