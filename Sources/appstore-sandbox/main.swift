print("appstore-sandbox")
