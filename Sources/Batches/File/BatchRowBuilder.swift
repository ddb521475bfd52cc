import Pricing

/// Builds a row from its cells, or reports all their faults in the order of `RowCode`.
struct BatchRowBuilder {
    static let skuScalarsMax = 128
    static let transactionIDDigitsMax = 64

    let rules: RulesInForce
    let unit: BatchPriceUnit
    /// Whether numbers and texts are told apart, as NDJSON does.
    let isTyped: Bool

    /// Builds the row. `known` are the faults that the reader has found already.
    func row(line: Int, _ cells: BatchCells, besides known: [RowFault] = []) -> BatchFileEntry {
        var faults = RowFaults(known)
        faults.check { () throws(RowFault) in try malformed(cells) }
        for column in BatchColumn.required + [unit.column] where cells[column] == nil {
            faults.add(RowFault(.malformedRow, "\(column.rawValue) is missing", remedy: "add it"))
        }
        let date = faults.check { () throws(RowFault) in try self.date(cells[.effectiveOnOrAfter]) }
        let storefront = faults.check { () throws(RowFault) in
            try optionalText(cells[.storefront], "storefront")
        }
        let id = cells[.originalTransactionID].flatMap { cell in
            faults.check { () throws(RowFault) in try transactionID(cell) }
        }
        let sku = cells[.sku].flatMap { cell in
            faults.check { () throws(RowFault) in try self.sku(cell, "sku") }
        }
        let dependents = self.dependents(cells[.dependentSKUs], of: id ?? "", &faults)
        let expected = faults.check { () throws(RowFault) in
            try expectedPrice(cells[.expectedPrice])
        }
        let price = cells[unit.column].flatMap { cell in
            faults.check { () throws(RowFault) in try self.price(cell).get() }
        }
        let currency = cells[.currency].flatMap { cell in
            faults.check { () throws(RowFault) in try self.currency(cell) }
        }
        if let price, let currency {
            faults.check { () throws(RowFault) in try decimals(of: price, currency) }
        }
        guard faults.isEmpty, let id, let sku, let price, let currency else {
            // A row whose only fault this is gets it from the judge, after the check for duplicates.
            if let sku, dependents.contains(sku) { faults.add(.dependentSelf(sku)) }
            return .spoiled(faults.row(line, cells.written, item(cells), price: price))
        }
        return .row(
            BatchRow(
                line: line, originalTransactionID: id, sku: sku, newPrice: price,
                currency: currency.code, storefront: storefront ?? nil, dependentSKUs: dependents,
                expectedPrice: expected ?? nil, effectiveOnOrAfter: date ?? nil))
    }

    /// The item that the cells name; nil where they name none.
    func item(_ cells: BatchCells) -> BatchItem? {
        // The faults of these cells were reported, or the row could not be cut into its cells.
        guard let id = try? transactionID(cells[.originalTransactionID]),
            let sku = try? self.sku(cells[.sku], "sku")
        else { return nil }
        var unread = RowFaults([])
        return BatchItem(
            originalTransactionID: id, sku: sku,
            dependentSKUs: dependents(cells[.dependentSKUs], of: id, &unread))
    }

    private func malformed(_ cells: BatchCells) throws(RowFault) {
        for cell in cells.all {
            let holdsNUL =
                switch cell {
                case .text(let text): text.utf8.contains(0)
                case .texts(let texts): texts.contains { $0.utf8.contains(0) }
                case .number, .flag, nil: false
                }
            guard !holdsNUL else {
                throw RowFault(
                    .malformedRow, "the row holds a NUL character",
                    remedy: "save the file as plain UTF-8 text")
            }
        }
    }

    private func date(_ cell: BatchCell?) throws(RowFault) -> CivilDate? {
        guard let text = try optionalText(cell, "effective_on_or_after") else { return nil }
        guard !CivilDate.isBeyond(text) else {
            throw RowFault(
                .malformedRow,
                "effective_on_or_after \(shownInMessage(text)) is after the year 9999",
                remedy: "use an earlier day, or leave it out to change the price at once")
        }
        guard let date = CivilDate(text), date.year >= 1970 else {
            throw RowFault(
                .malformedRow, "effective_on_or_after \(shownInMessage(text)) is not a date",
                remedy: "write it as YYYY-MM-DD")
        }
        return date
    }

    private func optionalText(_ cell: BatchCell?, _ name: String) throws(RowFault) -> String? {
        switch cell {
        case nil: return nil
        case .text(let text): return text.isEmpty ? nil : text
        case .number, .texts, .flag:
            throw RowFault(.malformedRow, "\(name) is not a text", remedy: "write it in quotes")
        }
    }

    private func transactionID(_ cell: BatchCell?) throws(RowFault) -> String {
        guard case .text(let text)? = cell else {
            throw RowFault(
                .badTransactionID, "original_transaction_id is not a text",
                remedy: "write its digits in quotes")
        }
        return try Self.checkedTransactionID(text)
    }

    /// Returns the text where it can be an original transaction id.
    static func checkedTransactionID(_ text: String) throws(RowFault) -> String {
        if consists(text, of: 0x30...0x39, max: transactionIDDigitsMax) { return text }
        if text.isEmpty {
            throw RowFault(
                .badTransactionID, "original_transaction_id is empty",
                remedy: "use the subscription's original transaction id")
        }
        if isMangled(text) {
            throw RowFault(
                .badTransactionID,
                "a spreadsheet has turned the id into the number \(shownInMessage(text))",
                remedy: "format the column as text before pasting the ids, and export again")
        }
        let areDigits = consists(text, of: 0x30...0x39, max: .max)
        throw RowFault(
            .badTransactionID,
            "original_transaction_id \(shownInMessage(text)) "
                + (areDigits
                    ? "has more than \(transactionIDDigitsMax) digits" : "is not digits alone"),
            remedy: "use the subscription's original transaction id")
    }

    /// Whether the text consists of bytes in this range, at least one and at most `max`.
    private static func consists(_ text: String, of range: ClosedRange<UInt8>, max: Int) -> Bool {
        var count = 0
        for byte in text.utf8 {
            guard range.contains(byte) else { return false }
            count += 1
        }
        return (1...max).contains(count)
    }

    /// Whether the text is a number in scientific notation, as spreadsheets write long ids.
    private static func isMangled(_ text: String) -> Bool {
        let parts = text.split(omittingEmptySubsequences: false) { $0 == "E" || $0 == "e" }
        guard parts.count == 2 else { return false }
        let mantissa = parts[0].filter { $0 != "." && $0 != "," }
        let exponent = parts[1].first == "+" ? parts[1].dropFirst() : parts[1]
        return [mantissa, String(exponent)].allSatisfy { digits in
            !digits.isEmpty && digits.utf8.allSatisfy { (0x30...0x39).contains($0) }
        }
    }

    private func sku(_ cell: BatchCell?, _ name: String) throws(RowFault) -> String {
        guard case .text(let text)? = cell else {
            throw RowFault(.badSKU, "\(name) is not a text", remedy: "write it in quotes")
        }
        return try Self.checkedSKU(text, name)
    }

    /// Returns the text where it can be an item's SKU.
    static func checkedSKU(_ text: String, _ name: String) throws(RowFault) -> String {
        // Printable ASCII without blanks needs none of Unicode's tables.
        if Self.consists(text, of: 0x21...0x7E, max: Self.skuScalarsMax) { return text }
        let scalars = text.unicodeScalars
        guard let first = scalars.first, let last = scalars.last else {
            throw RowFault(.badSKU, "\(name) is empty", remedy: "name the item")
        }
        guard scalars.count <= BatchRowBuilder.skuScalarsMax else {
            throw RowFault(
                .badSKU, "\(name) has \(scalars.count) characters",
                remedy: "use at most \(BatchRowBuilder.skuScalarsMax)")
        }
        guard !scalars.contains(where: { $0.properties.generalCategory == .control }) else {
            throw RowFault(
                .badSKU, "\(name) holds a control character", remedy: "remove it")
        }
        guard !first.properties.isWhitespace, !last.properties.isWhitespace else {
            throw RowFault(
                .badSKU, "\(name) \(shownInMessage(text)) begins or ends with a blank",
                remedy: "remove it")
        }
        return text
    }

    private func dependents(
        _ cell: BatchCell?, of subscription: String, _ faults: inout RowFaults
    ) -> [String] {
        let texts: [String]
        switch cell {
        case nil: return []
        case .text(let text):
            guard !text.isEmpty else { return [] }
            texts = text.split(separator: ";").map { String($0).withoutBlanks }
                .filter { !$0.isEmpty }
        case .texts(let list): texts = list
        case .number, .flag:
            faults.add(
                RowFault(
                    .malformedRow, "dependent_skus is not a text",
                    remedy: "write SKUs separated by semicolons"))
            return []
        }
        return texts.compactMap { text in
            faults.check { () throws(RowFault) in try dependent(text, of: subscription) }
        }
    }

    /// Reads `SKU` or `SUBSCRIPTION/SKU`. The subscription of the row itself needs no name.
    private func dependent(_ text: String, of subscription: String) throws(RowFault) -> String {
        let reference = DependentReference(text)
        guard let id = reference.originalTransactionID else {
            return try Self.checkedSKU(text, "a dependent SKU")
        }
        _ = try Self.checkedTransactionID(id)
        let name = try Self.checkedSKU(reference.sku, "a dependent SKU")
        return id == subscription ? name : reference.text
    }

    private func expectedPrice(_ cell: BatchCell?) throws(RowFault) -> Int64? {
        guard let cell, cell != .text("") else { return nil }
        switch price(cell) {
        case .success(let milliunits): return milliunits
        case .failure(let fault):
            throw RowFault(.badPrice, "expected_price: \(fault.message)", remedy: fault.remedy)
        }
    }

    private func price(_ cell: BatchCell?) -> Result<Int64, RowFault> {
        let text: String
        switch (unit, cell) {
        case (.decimal, .text(let written)?): text = written
        case (.milliunits, .text(let written)?) where !isTyped: text = written
        case (.milliunits, .number(let written)?): text = written
        case (.decimal, _): return .failure(notAPrice("the value is not a text", "write \"12.99\""))
        case (.milliunits, _):
            return .failure(notAPrice("the value is not an integer", "write 12990"))
        }
        guard !text.isEmpty else {
            return .failure(
                notAPrice("\(unit.column.rawValue) is empty", "give the full new price"))
        }
        do throws(PriceText.Fault) {
            let milliunits =
                switch unit {
                case .decimal: try PriceText.milliunits(decimal: text)
                case .milliunits: try PriceText.milliunits(integer: text)
                }
            guard milliunits <= PriceText.milliunitsMax else { throw .tooLarge }
            return .success(milliunits)
        } catch {
            return .failure(fault(error, text))
        }
    }

    private func fault(_ fault: PriceText.Fault, _ text: String) -> RowFault {
        switch fault {
        case .notANumber:
            switch unit {
            case .decimal:
                notAPrice(
                    "\(shownInMessage(text)) is not a plain decimal number", "write it like 12.99")
            case .milliunits:
                notAPrice("\(shownInMessage(text)) is not a plain integer", "write it like 12990")
            }
        case .tooLarge: notAPrice("\(shownInMessage(text)) is too large", "check the number")
        case .notPositive:
            notAPrice(
                "a price of \(shownInMessage(text)) is not more than 0", "give the full new price")
        case .tooManyDecimals:
            RowFault(
                .priceDecimals, "\(shownInMessage(text)) has more decimals than any currency",
                remedy: "round the price; if the point separates thousands, leave it out")
        }
    }

    private func notAPrice(_ message: String, _ remedy: String) -> RowFault {
        RowFault(.badPrice, message, remedy: remedy)
    }

    private func currency(_ cell: BatchCell) throws(RowFault) -> Currency {
        if case .text(let code) = cell, let currency = rules.currency(code) { return currency }
        let what =
            switch cell {
            case .text(""): "currency is empty"
            case .text(let text), .number(let text):
                "\(shownInMessage(text)) is not a currency of the App Store"
            case .texts, .flag: "currency is not a currency of the App Store"
            }
        throw RowFault(
            .unknownCurrency, what,
            remedy: "use the subscription's own, such as USD, in capitals")
    }

    private func decimals(of price: Int64, _ currency: Currency) throws(RowFault) {
        guard currency.accepts(milliunits: price) else {
            throw RowFault(
                .priceDecimals,
                "\(PriceText.decimal(price, decimals: 3)) has more decimals than the "
                    + "\(currency.decimals) that \(currency.code) has",
                remedy: "round the price; if the point separates thousands, leave it out")
        }
    }
}

/// A value from the file as a message shows it: in quotes, cut, and without control characters.
func shownInMessage(_ text: String) -> String {
    let plain = text.prefix(60).map { character in
        character.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control }
            ? character : "?"
    }
    return "'\(String(plain))\(text.count > 60 ? "…" : "")'"
}
