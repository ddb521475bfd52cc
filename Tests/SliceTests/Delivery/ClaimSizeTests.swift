import Testing

@testable import PriceChanges

@Suite struct ClaimSizeTests {
    private let size = ClaimSize(most: 500, aim: .milliseconds(300))

    /// As it is once the machine has shown that it is quick.
    private func grow() {
        for _ in 0..<10 { size.note(size.next, took: .milliseconds(1)) }
    }

    @Test func firstClaims_areSmall_andGrowToTheMost() {
        #expect(size.next == 50)
        size.note(50, took: .milliseconds(100))
        #expect(size.next == 100)
        grow()
        #expect(size.next == 500)
    }

    @Test func slowClaims_shrinkToTheLeast_andNoFurther() {
        grow()
        #expect(size.next == 500)
        size.note(500, took: .seconds(2))
        #expect(size.next == 250)
        for _ in 0..<10 { size.note(size.next, took: .seconds(2)) }
        #expect(size.next == ClaimSize.least)
    }

    @Test func quickClaims_growAgain_whereTheSizeHeldThemBack() {
        grow()
        size.note(500, took: .seconds(2))
        size.note(250, took: .milliseconds(200))
        #expect(size.next == 250)
        size.note(100, took: .milliseconds(10))
        #expect(size.next == 250)
        size.note(250, took: .milliseconds(100))
        #expect(size.next == 500)
        size.note(500, took: .milliseconds(1))
        #expect(size.next == 500)
    }

    @Test func slowClaim_ofNothing_saysNothing() {
        size.note(0, took: .seconds(5))
        #expect(size.next == 50)
    }

    @Test func limitBelowTheLeast_staysAsItIs() {
        let small = ClaimSize(most: 5, aim: .milliseconds(300))
        small.note(5, took: .seconds(5))
        #expect(small.next == 5)
    }
}
