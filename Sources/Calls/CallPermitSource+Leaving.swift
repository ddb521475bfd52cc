/// Permits for calls that leave before an instant or not at all.
extension CallPermitSource {
    /// Waits for a permit of the lease, or of another lease where those were missed. Returns false when the call must
    /// not be sent any more: the instant has passed, the App Store asked for silence, or the service is stopping.
    ///
    /// The claim has read the pauses. A later pause would be missed, so the permit must come soon after the claim.
    package func take(
        from permits: CallPermits, before: ContinuousClock.Instant
    ) async throws -> Bool {
        do {
            var hasPermit = try await permits.take()
            while !hasPermit {
                guard ContinuousClock.now < before, mayLeave(by: permits) else {
                    return false
                }
                let more = try await lease(1)
                guard more.lease.blockedUntil == nil else { return false }
                hasPermit = try await more.take()
                if !hasPermit { try await pause(after: more) }
            }
        } catch is CancellationError {
            return false
        }
        return ContinuousClock.now < before && mayLeave(by: permits)
    }

    private func mayLeave(by permits: CallPermits) -> Bool {
        !permits.isSilenced && silenced == nil && !Task.isCancelled
    }

    /// Waits until one call may be made, for `limit` at most; returns false when none may.
    package func takeOne(within limit: Duration) async throws -> Bool {
        let before = ContinuousClock.now + limit
        return try await take(from: lease(1), before: before)
    }
}
