package import Batches
package import Facts
package import Pricing
package import ServiceKit

/// Reads the statuses of given ids from the App Store. The ids are stored as checks under the digest of their file.
/// After a kill, the same file continues where it stopped; after it was completed, it starts again.
package struct Synchronizer: Sendable {
    /// The ids of one statement.
    private static let chunk = 5000

    private let pool: DatabasePool
    private let runner: StatusCheckRunner
    private let clock: any WallClock

    package struct Loaded: Hashable, Sendable {
        package var list: StatusCheckQueries.List
        /// The lines that are not blank, without the header.
        package var lines = 0
        package var faults = 0
        /// The distinct ids of the list.
        package var ids: Int64 = 0
        /// How many of them an earlier run has read.
        package var doneBefore: Int64 = 0
        package var duplicates: Int64 { Int64(lines) - Int64(faults) - ids }
    }

    package init(pool: DatabasePool, runner: StatusCheckRunner, clock: any WallClock) {
        self.pool = pool
        self.runner = runner
        self.clock = clock
    }

    /// Reads the file and stores its ids. `report` gets every bad line, in the file's order.
    package func load(
        _ input: BatchInput, report: (RowFault, Int) -> Void
    ) async throws -> Loaded {
        let digest = try Self.digest(of: input)
        var loaded = Loaded(list: StatusCheckQueries.List(.sync, id: digest))
        let list = loaded.list
        let now = clock.nowMilliseconds()
        var file = IdentifierFile(try input.open(), file: input.path)
        var chunk: [StatusCheckQueries.Wanted] = []
        while let line = try file.next() {
            loaded.lines += 1
            switch line {
            case .fault(let fault, let number):
                loaded.faults += 1
                report(fault, number)
            case .id(let id, let number):
                chunk.append(StatusCheckQueries.Wanted(id, line: Int64(number)))
            }
            if chunk.count == Self.chunk { try await want(&chunk, list, now) }
        }
        try await want(&chunk, list, now)
        let counts = try await pool.withTransaction { connection in
            _ = try connection.pipeline([StatusCheckQueries.freeClaims(of: list)])
            return try StatusCheckQueries.counts(of: list, on: connection)
        }
        loaded.ids = counts.wanted
        loaded.doneBefore = counts.wanted - counts.open
        return loaded
    }

    private static func digest(of input: BatchInput) throws -> String {
        let source = DigestingByteSource(try input.open())
        while try !source.read().isEmpty {}
        return source.hexadecimalDigest
    }

    private func want(
        _ chunk: inout [StatusCheckQueries.Wanted], _ list: StatusCheckQueries.List, _ now: Int64
    ) async throws {
        guard !chunk.isEmpty else { return }
        // One id twice in a statement would be an error of the statement, so the first line counts.
        var seen: Set<String> = []
        let wanted = chunk.filter { seen.insert($0.originalTransactionID).inserted }
        chunk = []
        _ = try await pool.withTransaction { connection in
            try StatusCheckQueries.want(wanted, in: list, at: now, on: connection)
        }
    }

    /// Makes the open checks of the list.
    package func run(
        _ list: StatusCheckQueries.List, into summary: inout StatusCheckSummary,
        progress: (StatusCheckSummary) -> Void = { _ in }
    ) async throws {
        try await runner.run(list, into: &summary, progress: progress)
    }

    package func counts(of list: StatusCheckQueries.List) async throws -> StatusCheckQueries.Counts
    {
        try await pool.read { try StatusCheckQueries.counts(of: list, on: $0) }
    }

    /// Reports every id that ended without a status, in the order of lines.
    package func forEachProblem(
        of list: StatusCheckQueries.List, _ tell: (StatusCheckQueries.Problem) -> Void
    ) async throws {
        var line: Int64 = 0
        while true {
            let after = line
            let problems = try await pool.read {
                try StatusCheckQueries.problems(of: list, afterLine: after, limit: 1000, on: $0)
            }
            guard let last = problems.last else { return }
            for problem in problems { tell(problem) }
            line = last.line
        }
    }

    /// Deletes the list once it was read and reported, so that the same file starts again.
    package func forget(_ list: StatusCheckQueries.List) async throws {
        while true {
            let gone = try await pool.withTransaction { connection in
                try StatusCheckQueries.forget(
                    list, doneBefore: nil, limit: Self.chunk, on: connection)
            }
            if gone < Self.chunk { return }
        }
    }
}
