import Testing

@testable import Pricing

struct DependencyTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var name: String
        /// SKU and its dependents, one entry a row.
        var rows: [(String, [String])]
        var open: [(String, [String])] = []
        var codes: [RowCode?]
        var message: String?

        var testDescription: String { name }
    }

    static let cases = [
        Case(
            name: "a dependent may rise itself", rows: [("A", ["B"]), ("B", [])], codes: [nil, nil]),
        Case(
            name: "two parents, two dependents", rows: [("A", ["B"]), ("C", ["D"])],
            codes: [nil, nil]),
        Case(
            name: "shared in the batch", rows: [("A", ["C"]), ("B", ["C"]), ("D", [])],
            codes: [.dependentShared, .dependentShared, nil], message: "C depends on A and B"),
        Case(
            name: "shared with an open change", rows: [("A", ["C"])], open: [("B", ["C"])],
            codes: [.dependentShared], message: "C depends on A and B"),
        Case(
            name: "chained in the batch", rows: [("A", ["B"]), ("B", ["C"]), ("C", [])],
            codes: [.dependentChained, .dependentChained, nil], message: "A → B → C"),
        Case(
            name: "chained in any order", rows: [("C", ["D"]), ("A", ["B"]), ("B", ["C"])],
            codes: [.dependentChained, .dependentChained, .dependentChained],
            message: "A → B → C → D"),
        Case(
            name: "chained below an open change", rows: [("B", ["C"])], open: [("A", ["B"])],
            codes: [.dependentChained], message: "A → B → C"),
        Case(
            name: "chained above an open change", rows: [("A", ["B"])], open: [("B", ["C"])],
            codes: [.dependentChained], message: "A → B → C"),
        Case(
            name: "in a circle", rows: [("A", ["B"]), ("B", ["A"])],
            codes: [.dependentChained, .dependentChained], message: "A → B"),
        Case(
            name: "a dependent of an open change rises", rows: [("B", [])], open: [("A", ["B"])],
            codes: [nil]),
        Case(
            name: "itself is no chain", rows: [("A", ["A"]), ("B", [])],
            codes: [.dependentSelf, nil]),
        Case(name: "named twice counts once", rows: [("A", ["B", "B"])], codes: [nil]),
    ]

    @Test(arguments: cases)
    func dependents_whenJudged_areNeitherSharedNorChained(_ item: Case) {
        let facts = SubscriptionFacts.make {
            $0.items = ["A", "B", "C", "D"].map { .make($0, price: 9990) }
        }
        let rows = item.rows.enumerated().map {
            BatchRow.make(sku: $1.0, line: $0 + 2, dependents: $1.1)
        }
        let context = JudgeContext(
            openChanges: item.open.map {
                .init(changeID: "c", sku: $0.0, newPrice: 1, dependentSKUs: $0.1, state: .queued)
            })

        let plans = Judge.make().judge(rows: rows, facts: facts, context: context)

        #expect(plans.map(\.code) == item.codes)
        if let message = item.message {
            #expect(plans.compactMap(\.fault?.message).allSatisfy { $0.contains(message) })
        }
    }

    @Test func dependents_whenTheOtherChangeHasEnded_areFree() {
        let context = JudgeContext(openChanges: [
            .init(changeID: "c", sku: "X", newPrice: 1, dependentSKUs: ["OTHER"], state: .declined)
        ])

        #expect(Judge.make().one(.make(dependents: ["OTHER"]), .make(), context).code == nil)
    }

    @Test func dependents_whenApplesIncreaseHasThem_areShared() {
        let facts = SubscriptionFacts.make {
            $0.items.append(.make("X", price: 1000))
            $0.edit("X") {
                $0.increase = .init(status: "PENDING", price: 2000, dependentSKUs: ["OTHER"])
            }
        }

        #expect(Judge.make().one(.make(dependents: ["OTHER"]), facts).code == .dependentShared)
    }
}
