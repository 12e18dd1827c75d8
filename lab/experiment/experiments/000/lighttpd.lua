lighty.content = { "This is not serverless, I quit!" }
lighty.header["Content-Type"] = "text/plain"
return 200
