print("repricer")
