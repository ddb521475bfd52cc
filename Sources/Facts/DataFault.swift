package import Postgres

extension PostgresError {
    /// Whether the values are at fault and not the moment. The same work would fail again, so it is quarantined.
    package var isAboutData: Bool {
        switch code {
        case .nulInText, .unrepresentableValue, .tooLarge, .unexpectedNull, .undecodableColumn: true
        case .server:
            // Class 54 is "program limit exceeded", such as an id that is too long for its index.
            sqlState.map {
                $0.isDataException || $0.isIntegrityConstraintViolation || $0.classCode == "54"
            } ?? false
        case .badConnectionString, .cannotConnect, .connectionLost, .commitOutcomeUnknown, .closed,
            .transactionMisused, .transactionAborted, .wrongCall, .missingColumn,
            .unexpectedRowCount, .poolTimedOut, .poolClosed:
            false
        }
    }
}

/// Whether another session held what the work changes for longer than the service waits. Nothing was written, and the
/// same work succeeds once that session lets go.
package func isHeldByOthers(_ error: any Error) -> Bool {
    (error as? PostgresError)?.sqlState == .lockNotAvailable
}

/// Whether one piece of work cannot succeed however often it is tried, because what it holds is at fault.
package func isDataFault(_ error: any Error) -> Bool {
    if let error = error as? PostgresError { return error.isAboutData }
    return error is FactsError
}
