import AppStore
import Foundation
import JOSE

/// Whole notifications verified and decoded a second, on `threads=` threads and nothing else: the
/// ceiling of everything that takes notifications in.
enum VerificationRate {
    static func run(_ options: Options) async throws {
        let folder = try options.text("folder")
        let threads = max(1, try options.integer("threads", 2))
        let limit = try options.integer("count", 4000)
        let payloads = try PayloadReader.payloads(folder: folder, limit: limit)
        let roots = try TrustedRoots(certificatesIn: "\(folder)/root.pem")
        let verifier = NotificationVerifier(
            verifier: try JWSVerifier(roots: roots), bundleID: PayloadFile.bundleID,
            appAppleID: nil, environment: .sandbox)
        // The chain is cached from here on, as in a running service.
        let now = Int64(Date().timeIntervalSince1970 * 1000)
        if let first = payloads.first {
            _ = try verifier.verify(signedPayload: first, nowMilliseconds: now)
        }
        let start = ContinuousClock.now
        try await withThrowingTaskGroup(of: Void.self) { group in
            for thread in 0..<threads {
                group.addTask {
                    for index in stride(from: thread, to: payloads.count, by: threads) {
                        _ = try verifier.verify(
                            signedPayload: payloads[index], nowMilliseconds: now)
                    }
                }
            }
            try await group.waitForAll()
        }
        let seconds = (ContinuousClock.now - start) / .seconds(1)
        print(Int((Double(payloads.count) / seconds).rounded()))
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

/// The lines of a file that stays where it is.
final class MappedLines: @unchecked Sendable {
    // Unchecked: the mapping is read only, and lives as long as this object.
    let bytes: UnsafeRawBufferPointer
    /// Without their line ends.
    let ranges: [Range<Int>]

    init(path: String) throws {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        defer { close(descriptor) }
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
    }

    deinit {
        munmap(UnsafeMutableRawPointer(mutating: bytes.baseAddress), bytes.count)
    }
}
