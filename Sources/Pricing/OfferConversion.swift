/// The change of an item from a trial or a discounted offer to its full price.
struct OfferConversion: Hashable, Sendable {
    var sku: String
    /// The renewal that first charges the full price.
    var at: Instant

    /// South Korea requires consent in the 30 days before the conversion day, without that day (for 1 May: 1 to 30
    /// April), whatever the period, as in "Handling subscription price changes". The days are days in Seoul.
    static let leadDays = 30
    static let lead = Int64(leadDays) * Instant.millisecondsPerDay

    /// The conversion day. Seoul is nine hours ahead of UTC all year.
    var day: CivilDate { at.advanced(by: 9 * 3_600_000).day }
    var windowFirstDay: CivilDate {
        CivilDate(daysSinceEpoch: day.daysSinceEpoch - OfferConversion.leadDays)
    }
    var windowLastDay: CivilDate { CivilDate(daysSinceEpoch: day.daysSinceEpoch - 1) }
}

/// The conversions of a subscription's other items.
struct OfferConversions {
    var known: [OfferConversion] = []
    /// An item in an offer whose end is not known, because its period or the number of them cannot be read: it may end
    /// at any renewal.
    var withoutEnd: String?
}
