/// Cuts of an input, drawn from the input itself, so that a saved one repeats exactly.
struct Cuts {
    private var state: UInt64

    init(_ bytes: [UInt8]) {
        state = bytes.reduce(14_695_981_039_346_656_037) { ($0 ^ UInt64($1)) &* 1_099_511_628_211 }
    }

    /// A number below `limit`.
    mutating func next(_ limit: Int) -> Int {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return Int((state >> 33) % UInt64(max(1, limit)))
    }

    /// The input in pieces, some of them single bytes.
    mutating func pieces(_ bytes: [UInt8]) -> [ArraySlice<UInt8>] {
        var pieces: [ArraySlice<UInt8>] = []
        var rest = bytes[...]
        let longest = [1, 3, 17, 400][next(4)]
        while !rest.isEmpty {
            let count = 1 + next(longest)
            pieces.append(rest.prefix(count))
            rest = rest.dropFirst(count)
        }
        return pieces
    }
}

extension [UInt8] {
    init(_ text: String) { self.init(text.utf8) }
}

/// The parts between separators, empty ones included.
func split(_ bytes: [UInt8], _ separator: Character) -> [[UInt8]] {
    var parts: [[UInt8]] = [[]]
    for byte in bytes {
        if byte == separator.asciiValue {
            parts.append([])
        } else {
            parts[parts.count - 1].append(byte)
        }
    }
    return parts
}

func contains(_ bytes: [UInt8], _ part: [UInt8]) -> Bool {
    bytes.indices.contains { bytes[$0...].starts(with: part) }
}
