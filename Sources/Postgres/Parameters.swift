import CLibPQ

/// The values of one statement as libpq takes them: pointers into one buffer.
struct Parameters {
    /// The protocol counts parameters in 16 bits.
    static let countMax = 65_535

    private var buffer: [UInt8] = []
    private var offsets: [Int?] = []
    private var lengths: [Int32] = []
    private var formats: [Int32] = []

    /// About how many bytes the values take on the wire.
    var byteCount: Int { buffer.count }

    /// Throws the error of a value that cannot be sent; nothing has been sent then.
    init(_ bindings: [Binding], statement: @autoclosure () -> String) throws(PostgresError) {
        guard bindings.count <= Self.countMax else {
            var error = PostgresError(.tooLarge, "\(bindings.count) parameters, at most 65535")
            error.statement = statement()
            throw error
        }
        buffer.reserveCapacity(bindings.reduce(0) { $0 + $1.byteCount + 1 })
        offsets.reserveCapacity(bindings.count)
        lengths.reserveCapacity(bindings.count)
        formats.reserveCapacity(bindings.count)
        for binding in bindings {
            switch binding.value {
            case .null:
                offsets.append(nil)
                lengths.append(0)
                formats.append(0)
            case .text(let text):
                offsets.append(buffer.count)
                lengths.append(0)
                formats.append(0)
                buffer.append(contentsOf: text.utf8)
                buffer.append(0)
            case .binary(let bytes):
                offsets.append(buffer.count)
                lengths.append(Int32(clamping: bytes.count))
                formats.append(1)
                buffer.append(contentsOf: bytes)
                buffer.append(0)
            case .refused(var error):
                error.statement = statement()
                throw error
            }
        }
        guard buffer.count <= Int(Int32.max) else {
            throw PostgresError(.tooLarge, "the values of one statement exceed 2 GiB")
        }
    }

    func withPointers<T>(
        _ body: (
            _ count: Int32, _ values: [UnsafePointer<CChar>?], _ lengths: [Int32],
            _ formats: [Int32]
        ) -> T
    ) -> T {
        buffer.withUnsafeBytes { bytes in
            let values = offsets.map { offset in
                offset.flatMap { offset in
                    bytes.baseAddress?.advanced(by: offset).assumingMemoryBound(to: CChar.self)
                }
            }
            return body(Int32(values.count), values, lengths, formats)
        }
    }
}
