import Foundation

/// Whole notifications verified and decoded per second, by one thread and by two, and the same for the bare OpenSSL
/// operations that they need: this machine's upper bound for receiving notifications.
enum VerificationRate {
    static func run(_ options: Options) async throws {
        let folder = try options.text("folder")
        let payloads = try PayloadReader.payloads(
            folder: folder, limit: try options.integer("count", 1000))
        let rates = try VerifyRounds(payloads: payloads, rootPath: "\(folder)/root.pem")
            .threadRates(rounds: 5)
        let numbers = [rates.one, rates.two, rates.bareOne, rates.bareTwo]
        print(numbers.map { "\(Int($0.rounded()))" }.joined(separator: " "))
    }
}

/// Reads back what `PayloadFile` wrote.
enum PayloadReader {
    private static let prefix = #"{"signedPayload":""#.utf8.count

    static func payloads(folder: String, limit: Int) throws -> [String] {
        let lines = try MappedLines(path: "\(folder)/payloads.ndjson")
        return lines.ranges.prefix(limit).map { range in
            let text = lines.bytes[(range.lowerBound + prefix)..<(range.upperBound - 2)]
            return String(decoding: text, as: UTF8.self)
        }
    }
}

/// The lines of a memory-mapped file.
final class MappedLines: @unchecked Sendable {
    // Unchecked: the mapping is read only, and lives as long as this object.
    let bytes: UnsafeRawBufferPointer
    /// The file, open as long as this object lives.
    let descriptor: Int32
    /// Without their line ends.
    let ranges: [Range<Int>]

    init(path: String) throws {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        var isReady = false
        defer { if !isReady { close(descriptor) } }
        var status = stat()
        guard descriptor >= 0, fstat(descriptor, &status) == 0, status.st_size > 0,
            let address = mmap(
                nil, Int(status.st_size), PROT_READ, MAP_PRIVATE | Int32(MAP_POPULATE), descriptor,
                0),
            address != MAP_FAILED
        else { throw BenchmarkFailure("\(path): \(String(cString: strerror(errno)))") }
        let bytes = UnsafeRawBufferPointer(start: address, count: Int(status.st_size))
        var ranges: [Range<Int>] = []
        var start = 0
        while start < bytes.count,
            let found = memchr(address + start, 0x0A, bytes.count - start)
        {
            let end = address.distance(to: found)
            ranges.append(start..<end)
            start = end + 1
        }
        self.bytes = bytes
        self.ranges = ranges
        self.descriptor = descriptor
        isReady = true
    }

    deinit {
        close(descriptor)
        munmap(UnsafeMutableRawPointer(mutating: bytes.baseAddress), bytes.count)
    }
}
