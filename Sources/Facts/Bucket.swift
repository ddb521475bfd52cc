package import Postgres

/// The bucket of a subscription, as the database's `bucket_of` computes it. Every table of subscriptions has it in its
/// keys, so that a statement which names one bucket is answered by one shard or partition.
package enum Bucket {
    package static let count = 64

    /// The lowest bits of PostgreSQL's `hashtextextended`, which is Bob Jenkins' lookup3.
    package static func of(_ subject: String) -> Int {
        let bytes = Array(subject.utf8)
        let seed = 0x9e37_79b9 &+ UInt32(truncatingIfNeeded: bytes.count) &+ 3_923_095
        var (a, b, c) = (seed, seed, seed)
        var start = 0
        while bytes.count - start >= 12 {
            add(bytes, from: start, thirdFrom: 0, &a, &b, &c)
            for bits: UInt32 in [4, 6, 8, 16, 19, 4] {
                a = (a &- c) ^ turned(c, bits)
                (a, b, c) = (b, c &+ b, a)
            }
            start += 12
        }
        add(bytes, from: start, thirdFrom: 1, &a, &b, &c)
        for bits: UInt32 in [14, 11, 25, 16, 4, 14, 24] {
            (a, b, c) = (b, (c ^ b) &- turned(b, bits), a)
        }
        return Int(b) & (count - 1)
    }

    /// Mixes in the next 12 bytes, or the last 11 at most. For the last bytes `lowest` is 1, because the length takes
    /// the lowest byte of the third word.
    private static func add(
        _ bytes: [UInt8], from start: Int, thirdFrom lowest: Int,
        _ a: inout UInt32, _ b: inout UInt32, _ c: inout UInt32
    ) {
        for (place, byte) in bytes[start...].prefix(12).enumerated() {
            switch place {
            case 0..<4: a &+= UInt32(byte) << (8 * place)
            case 4..<8: b &+= UInt32(byte) << (8 * (place - 4))
            default: c &+= UInt32(byte) << (8 * (place - 8 + lowest))
            }
        }
    }

    private static func turned(_ word: UInt32, _ bits: UInt32) -> UInt32 {
        word << bits | word >> (32 - bits)
    }

    /// The condition that `column` is the bucket of one of these subscriptions. Where all have the same bucket, the
    /// condition names it, so that one partition answers.
    package static func isThat(of ids: some Sequence<String>, _ column: SQL = "bucket") -> SQL {
        "\(fragment: column) = \(fragment: any(of: ids))"
    }

    /// The right side of that condition, after the `=`.
    package static func any(of ids: some Sequence<String>) -> SQL {
        let buckets = Set(ids.map(of))
        if let only = buckets.first, buckets.count == 1 { return "\(only)::smallint" }
        return "ANY (\(buckets.sorted())::smallint[])"
    }

    /// Divides the elements by the bucket of their subscriptions.
    package static func groups<Element>(
        _ elements: [Element], of id: (Element) -> String
    ) -> [[Element]] {
        Dictionary(grouping: elements) { of(id($0)) }.sorted { $0.key < $1.key }.map(\.value)
    }

    package static func isThat(of id: String, _ column: SQL = "bucket") -> SQL {
        isThat(of: CollectionOfOne(id), column)
    }
}
