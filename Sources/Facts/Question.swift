package import Postgres

/// Queries, and how to read their rows. Questions that do not depend on each other's answers share one round trip.
package struct Question<Answer> {
    private let statements: [SQL]
    private let read: (ArraySlice<Rows>) throws -> Answer

    package init(_ sql: SQL, _ read: @escaping (Rows) throws -> Answer) {
        statements = [sql]
        self.read = { answers in
            guard let rows = answers.first else { throw Self.tooFew }
            return try read(rows)
        }
    }

    /// Several queries, asked in this order; `read` gets their answers in the same order.
    package init(_ statements: [SQL], _ read: @escaping ([Rows]) throws -> Answer) {
        self.statements = statements
        self.read = { try read(Array($0)) }
    }

    /// A question whose answer is computed from this one's.
    package func map<Other>(_ body: @escaping (Answer) throws -> Other) -> Question<Other> {
        let read = read
        return Question<Other>(statements) { try body(read($0[...])) }
    }

    /// A question that asks nothing, because its answer is known.
    package static func answered(_ answer: Answer) -> Question {
        Question([]) { _ in answer }
    }

    private static var tooFew: FactsError { .unreadable("fewer answers than questions") }

    fileprivate func append(to statements: inout [SQL]) {
        statements += self.statements
    }

    fileprivate func take(from answers: inout ArraySlice<Rows>) throws -> Answer {
        guard answers.count >= statements.count else { throw Self.tooFew }
        defer { answers = answers.dropFirst(statements.count) }
        return try read(answers.prefix(statements.count))
    }
}

extension PostgresConnection {
    /// Asks all questions in this order and in one pipeline. Outside a transaction they share one, so that all
    /// succeed or none.
    package func ask<each Answer>(
        _ question: repeat Question<each Answer>
    ) throws -> (repeat each Answer) {
        var statements: [SQL] = []
        repeat (each question).append(to: &statements)
        var answers = try pipeline(statements)[...]
        return (repeat try (each question).take(from: &answers))
    }
}
