// SPDX-License-Identifier: Apache-2.0
//
// Bytes that two servers in a row could read differently, and their well-formed neighbours.
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "server/http/test_client.h"

namespace skein::server {
namespace {

const std::string kBody = R"({"prompt": "Hi"})";
const std::string kHidden = "GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n";

std::string Post(std::string_view headers, std::string_view payload) {
  return fmt::format("POST /echo HTTP/1.1\r\nHost: localhost\r\n{}\r\n{}", headers, payload);
}
std::string Chunked(std::string_view payload) { return Post("Transfer-Encoding: chunked\r\n", payload); }
std::string WithLength(std::string_view length) {
  return Post(fmt::format("Content-Length:{}\r\n", length), kBody + kHidden);
}
std::string WithLine(std::string_view line) {
  return Post(fmt::format("{}\r\nContent-Length: 16\r\n", line), kBody + kHidden);
}
std::string Coded(std::string_view coding) {
  return Post(fmt::format("Transfer-Encoding:{}\r\n", coding), "10\r\n" + kBody + "\r\n0\r\n\r\n" + kHidden);
}
std::string Line(std::string_view line) { return fmt::format("{}\r\nHost: localhost\r\n\r\n", line); }
std::string Repeated(std::string_view text, int count) {
  std::string all;
  for (int k = 0; k < count; ++k) all += text;
  return all;
}

std::vector<std::pair<std::string, std::string>> Corpus() {
  using namespace std::string_literals;
  const std::string whole = "10\r\n" + kBody + "\r\n0\r\n\r\n";
  std::vector<std::pair<std::string, std::string>> cases = {
      // Two lengths, or none that is clear.
      {"both lengths", Post("Content-Length: 16\r\nTransfer-Encoding: chunked\r\n", whole)},
      {"both lengths, chunked first", Post("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", whole + kHidden)},
      {"both lengths, zero", Post("Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", whole)},
      {"xchunked", Coded(" xchunked")},
      {"gzip", Coded(" gzip")},
      {"identity", Coded(" identity")},
      {"an empty coding", Coded("")},
      {"chunked, identity", Coded(" chunked, identity")},
      {"gzip, chunked", Coded(" gzip, chunked")},
      {"chunked, chunked", Coded(" chunked, chunked")},
      {"chunked with a comma", Coded(" chunked,")},
      {"chunked with a parameter", Coded(" chunked;q=1")},
      {"a quoted coding", Coded(" \"chunked\"")},
      {"a coding after a vertical tab", Coded(" \x0b"
                                              "chunked")},
      {"a coding with a soft hyphen", Coded(" chunked\xc2\xad")},
      {"chunked twice", Post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", whole)},
      {"chunked and gzip lines", Post("Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n", whole)},
      {"chunked in HTTP/1.0", "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n" + whole},
      {"two lengths", Post("Content-Length: 16\r\nContent-Length: 21\r\n", kBody + kHidden)},
      {"two equal lengths", Post("Content-Length: 16\r\nContent-Length: 16\r\n", kBody + kHidden)},
      {"a list of lengths", WithLength(" 16, 16")},
      {"a signed length", WithLength(" +16")},
      {"a negative length", WithLength(" -1")},
      {"a hexadecimal length", WithLength(" 0x10")},
      {"a length with a letter", WithLength(" 16a")},
      {"a length with a point", WithLength(" 16.0")},
      {"an exponent", WithLength(" 1e1")},
      {"an empty length", WithLength("")},
      {"a length with a space inside", WithLength(" 1 6")},
      {"an underscore", WithLength(" 1_6")},
      {"other digits", WithLength(" \xd9\xa1\xd9\xa6")},
      {"a length of 2^64 and more", WithLength(" 18446744073709551632")},
      {"a length of 2^63", WithLength(" 9223372036854775808")},
      {"a length beyond the limit", WithLength(" 99999999999")},
      // Chunks.
      {"a negative chunk", Chunked("-2\r\n" + kBody + "\r\n0\r\n\r\n")},
      {"a positive sign", Chunked("+10\r\n" + kBody + "\r\n0\r\n\r\n")},
      {"a chunk size that wraps", Chunked("10000000000000010\r\n" + kBody + "\r\n0\r\n\r\n")},
      {"a chunk of 2^64 - 1", Chunked("ffffffffffffffff\r\n" + kBody)},
      {"a chunk size that does not end", Chunked(std::string(600, '0'))},
      {"a chunk size with 0x", Chunked("0x" + whole)},
      {"a chunk size with a letter", Chunked("1g\r\n" + kBody + "\r\n0\r\n\r\n")},
      {"a space before a chunk size", Chunked(" " + whole)},
      {"a space after a chunk size", Chunked("10 \r\n" + kBody + "\r\n0\r\n\r\n")},
      {"an empty chunk size", Chunked("\r\n" + kBody + "\r\n0\r\n\r\n")},
      {"an extension without size", Chunked(";a=b\r\n" + kBody + "\r\n0\r\n\r\n")},
      {"an extension without name", Chunked("10;=b\r\n" + kBody + "\r\n0\r\n\r\n")},
      {"an extension that is empty", Chunked("10;\r\n" + kBody + "\r\n0\r\n\r\n")},
      {"an extension with an open quote", Chunked("10;a=\"b\r\n" + kBody + "\r\n0\r\n\r\n")},
      {"a bare LF after a chunk size", Chunked("10\n" + kBody + "\r\n0\r\n\r\n")},
      {"a bare LF in an extension", Chunked("10;a\nb\r\n" + kBody + "\r\n0\r\n\r\n")},
      {"a bare CR after a chunk size", Chunked("10\r" + kBody + "\r\n0\r\n\r\n")},
      {"a bare LF after a chunk", Chunked("10\r\n" + kBody + "\n0\r\n\r\n")},
      {"a chunk with no end of line", Chunked("10\r\n" + kBody + "0\r\n\r\n")},
      {"a chunk longer than said", Chunked("5\r\n" + kBody + "\r\n0\r\n\r\n")},
      {"a chunk extension of 1 MB", Chunked("10;x=" + std::string(1'000'000, 'a') + "\r\n" + kBody + "\r\n0\r\n\r\n")},
      {"extensions of 1 MB together",
       Chunked(Repeated("1;x=" + std::string(900, 'a') + "\r\n \r\n", 1100) + "0\r\n\r\n")},
      {"a million tiny chunks", Chunked(Repeated("1\r\n \r\n", 1'000'000) + "0\r\n\r\n")},
      {"a body of chunks beyond the limit",
       Chunked(Repeated("100000\r\n" + std::string(1 << 20, 'x') + "\r\n", 40) + "0\r\n\r\n")},
      {"a trailer that says a length", Chunked("10\r\n" + kBody + "\r\n0\r\nContent-Length: 5\r\n\r\n")},
      {"a trailer without colon", Chunked("10\r\n" + kBody + "\r\n0\r\nnonsense\r\n\r\n")},
      {"a trailer that is folded", Chunked("10\r\n" + kBody + "\r\n0\r\nA: b\r\n c\r\n\r\n")},
      {"a trailer of 1 MB", Chunked("10\r\n" + kBody + "\r\n0\r\nA: " + std::string(1'000'000, 'a') + "\r\n\r\n")},
      {"10,000 trailers", Chunked("10\r\n" + kBody + "\r\n0\r\n" + Repeated("A: b\r\n", 10'000) + "\r\n")},
      // Header lines.
      {"a folded header", WithLine("X-Fold: a\r\n b")},
      {"a header folded by a tab", WithLine("X-Fold: a\r\n\tb")},
      {"a folded length", Post("Content-Length:\r\n 16\r\n", kBody)},
      {"a space before the colon", WithLine("X-Odd : a")},
      {"a tab before the colon", WithLine("X-Odd\t: a")},
      {"a header without colon", WithLine("Nonsense")},
      {"a header with no name", WithLine(": value")},
      {"a header name with a space", WithLine("X Y: value")},
      {"a header name with brackets", WithLine("X[0]: value")},
      {"a header name that is no ASCII", WithLine("X-\xc3\xa4: value")},
      {"a NUL in a header", WithLine("X-Odd: a\0b"s)},
      {"a NUL in a header's name", WithLine("X-O\0d: a"s)},
      {"a bell in a header", WithLine("X-Odd: a\x07")},
      {"a delete in a header", WithLine("X-Odd: a\x7f")},
      {"a bare CR in a header", WithLine("X-Odd: a\rContent-Length: 3")},
      {"a bare LF in a header", WithLine("X-Odd: a\nContent-Length: 3")},
      {"CR CR LF", WithLine("X-Odd: a\r")},
      {"lines that end with LF alone", "GET /live HTTP/1.1\nHost: localhost\n\n"},
      {"a head that ends with LF LF", "GET /live HTTP/1.1\r\nHost: localhost\n\n"},
      {"a space before the first header", "GET /live HTTP/1.1\r\n Host: localhost\r\n\r\n"},
      {"a header of 1 MB", WithLine("X-Big: " + std::string(1'000'000, 'a'))},
      {"10,000 headers", WithLine(Repeated("X: y\r\n", 10'000) + "X: z")},
      {"101 headers", WithLine(Repeated("X: y\r\n", 100) + "X: z")},
      // Host.
      {"no Host", "GET /live HTTP/1.1\r\n\r\n"},
      {"two Hosts", "GET /live HTTP/1.1\r\nHost: localhost\r\nHost: example.test\r\n\r\n"},
      {"two equal Hosts", "GET /live HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n"},
      {"an empty Host", "GET /live HTTP/1.1\r\nHost:\r\n\r\n"},
      {"a Host with a user", "GET /live HTTP/1.1\r\nHost: localhost@example.test\r\n\r\n"},
      {"a Host with a path", "GET /live HTTP/1.1\r\nHost: localhost/x\r\n\r\n"},
      {"a list of Hosts", "GET /live HTTP/1.1\r\nHost: localhost, example.test\r\n\r\n"},
      {"a Host with a port that is none", "GET /live HTTP/1.1\r\nHost: localhost:80a\r\n\r\n"},
      {"another Host", "GET /live HTTP/1.1\r\nHost: evil.example\r\n\r\n"},
      // The request line.
      {"an odd method", Line("G@T /live HTTP/1.1")},
      {"a method in small letters", Line("get /live HTTP/1.1")},
      {"an unknown method", Line("BREW /live HTTP/1.1")},
      {"CONNECT", Line("CONNECT localhost:80 HTTP/1.1")},
      {"TRACE", Line("TRACE /live HTTP/1.1")},
      {"no version", "GET /live\r\n\r\n"},
      {"version 9", Line("GET /live HTTP/9.9")},
      {"version 2", Line("GET /live HTTP/2.0")},
      {"version 1.2", Line("GET /live HTTP/1.2")},
      {"version 0.9", Line("GET /live HTTP/0.9")},
      {"version 1", Line("GET /live HTTP/1")},
      {"a version in small letters", Line("GET /live http/1.1")},
      {"a version with a sign", Line("GET /live HTTP/+1.1")},
      {"another protocol", Line("GET /live HTCPCP/1.0")},
      {"two spaces", Line("GET  /live  HTTP/1.1")},
      {"two spaces before the version", Line("GET /live  HTTP/1.1")},
      {"a space at the line's end", Line("GET /live HTTP/1.1 ")},
      {"a space at the line's start", Line(" GET /live HTTP/1.1")},
      {"tabs for spaces", Line("GET\t/live\tHTTP/1.1")},
      {"a space in the path", Line("GET /li ve HTTP/1.1")},
      {"a NUL in the path", Line("GET /li\0ve HTTP/1.1"s)},
      {"an encoded NUL in the path", Line("GET /li%00ve HTTP/1.1")},
      {"an encoded CR LF in the path", Line("GET /live%0d%0aX:%20y HTTP/1.1")},
      {"half a percent sign", Line("GET /live%4 HTTP/1.1")},
      {"a percent sign with letters", Line("GET /live%zz HTTP/1.1")},
      {"a fragment", Line("GET /live#x HTTP/1.1")},
      {"a backslash", Line("GET \\live HTTP/1.1")},
      {"letters that are no ASCII", Line("GET /liv\xc3\xa9 HTTP/1.1")},
      {"a target without slash", Line("GET live HTTP/1.1")},
      {"a target of another host", Line("GET http://example.test/live HTTP/1.1")},
      {"a target with another scheme", Line("GET ftp://localhost/live HTTP/1.1")},
      {"an asterisk for GET", Line("GET * HTTP/1.1")},
      {"a path of 64 KB", Line("GET /" + std::string(65536, 'a') + " HTTP/1.1")},
      {"two empty lines first", "\r\n\r\n" + kHidden},
      // Other languages, and what is none.
      {"bytes of TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"s + std::string(64, 'a')},
      {"an HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
      {"NULs", std::string(64, '\0')},
      {"SSH", "SSH-2.0-OpenSSH_9.2\r\n"},
      {"a mail", "EHLO example.test\r\n"},
      {"a line that does not end", std::string(100'000, 'G')},
      {"an unknown expectation", Post("Content-Length: 16\r\nExpect: 200-maybe\r\n", kBody)},
  };
  return cases;
}

// A proxy in front and we read a connection's bytes as different requests: one client's bytes become another's request.
TEST(HttpCorpus, EveryDoubtfulRequestIsRefusedAndItsConnectionEnds) {
  TestServer server;
  const auto corpus = Corpus();
  EXPECT_GE(corpus.size(), 80u);
  for (const auto& [name, bytes] : corpus) {
    TestClient client(server.port());
    client.Send(bytes);
    EXPECT_TRUE(client.ReadToEnd()) << name << ": the connection stays open";
    const auto codes = client.Statuses();
    EXPECT_LE(codes.size(), 1u) << name << ": " << client.found();
    for (const int code : codes) EXPECT_GE(code, 400) << name;
    const bool ours = client.found().find(R"({"error":{"message":")") != std::string::npos;
    EXPECT_TRUE(codes.empty() || ours) << name << ": " << client.found();
  }
  EXPECT_TRUE(server.Serves());
}

// The first wrong byte decides: who waits for the rest of a wrong head holds a connection for nothing.
TEST(HttpCorpus, RefusesAlsoWhenBytesComeOneByOne) {
  TestServer server;
  for (const auto& [name, bytes] : Corpus()) {
    if (bytes.size() > 300) continue;
    TestClient client(server.port());
    for (const char byte : bytes) {
      if (!client.Send(std::string_view(&byte, 1))) break;
    }
    EXPECT_TRUE(client.ReadToEnd()) << name << ": the connection stays open";
    const auto codes = client.Statuses();
    EXPECT_LE(codes.size(), 1u) << name << ": " << client.found();
    for (const int code : codes) EXPECT_GE(code, 400) << name;
  }
}

// Strictness that shuts out a right client is a defect, too.
TEST(HttpCorpus, OddButCorrectRequestsAreServed) {
  TestServer server;
  const std::string close = "Connection: close\r\n";
  const std::string ten = "0123456789";
  const std::vector<std::tuple<std::string, std::string, std::string>> cases = {
      {"chunked", Post("Transfer-Encoding: chunked\r\n" + close, "5\r\n01234\r\n5\r\n56789\r\n0\r\n\r\n"), ten},
      {"Chunked", Post("transfer-encoding: Chunked\r\n" + close, "a\r\n0123456789\r\n0\r\n\r\n"), ten},
      {"CHUNKED with blanks", Post("TRANSFER-ENCODING: \t CHUNKED \t\r\n" + close, "A\r\n0123456789\r\n0\r\n\r\n"),
       ten},
      {"leading zeros", Post("Transfer-Encoding: chunked\r\n" + close, "000a\r\n0123456789\r\n000\r\n\r\n"), ten},
      {"extensions",
       Post("Transfer-Encoding: chunked\r\n" + close, "5;a=b;c\r\n01234\r\n5;d=\"e \\\" f\"\r\n56789\r\n0;z\r\n\r\n"),
       ten},
      {"trailers",
       Post("Transfer-Encoding: chunked\r\n" + close, "a\r\n0123456789\r\n0\r\nX-Sum: 1\r\nX-More: 2\r\n\r\n"), ten},
      {"an empty chunked body", Post("Transfer-Encoding: chunked\r\n" + close, "0\r\n\r\n"), ""},
      {"a length of zero", Post("Content-Length: 0\r\n" + close, ""), ""},
      {"a length with zeros", Post("Content-Length: 0010\r\n" + close, ten), ten},
      {"no blank after the colon", Post("Content-Length:10\r\nConnection:close\r\n", ten), ten},
      {"an empty header value", Post("X-Empty:\r\nContent-Length: 10\r\n" + close, ten), ten},
      {"letters that are no ASCII in a value", Post("X-Name: \xc3\xa4\r\nContent-Length: 10\r\n" + close, ten), ten},
      {"an expectation", Post("Expect: 100-Continue\r\nContent-Length: 10\r\n" + close, ten), ten},
      {"100 headers less three", Post(Repeated("X: y\r\n", 97) + "Content-Length: 10\r\n" + close, ten), ten},
      {"one empty line first", "\r\n" + Post("Content-Length: 10\r\n" + close, ten), ten},
      {"a whole URL", "GET http://localhost/live HTTP/1.1\r\nHost: localhost\r\n" + close + "\r\n", "live"},
      {"a query", "GET /live?a=b&c=%20d? HTTP/1.1\r\nHost: localhost\r\n" + close + "\r\n", "live"},
      {"encoded letters", "GET /%6cive HTTP/1.1\r\nHost: localhost\r\n" + close + "\r\n", "live"},
      {"an id with slashes", "GET /v1/models/a%2Fb/c HTTP/1.1\r\nHost: localhost\r\n" + close + "\r\n", "a/b/c"},
      {"a Host with a port", "GET /live HTTP/1.1\r\nHost: LOCALHOST:1\r\n" + close + "\r\n", "live"},
      {"an IPv6 Host", "GET /live HTTP/1.1\r\nHost: [::1]:8000\r\n" + close + "\r\n", "live"},
      {"a GET with a body", "GET /live HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n" + close + "\r\n" + ten,
       "live"},
      {"HTTP/1.0", "GET /live HTTP/1.0\r\n\r\n", "live"},
      {"an upgrade that we do not make",
       "GET /live HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, close\r\nUpgrade: h2c\r\n\r\n", "live"},
  };
  for (const auto& [name, bytes, wanted] : cases) {
    for (const bool by_bytes : {false, true}) {
      TestClient client(server.port());
      for (std::size_t at = 0; at < bytes.size();) {
        const std::size_t size = by_bytes ? 1 : bytes.size();
        client.Send(std::string_view(bytes).substr(at, size));
        at += size;
      }
      ASSERT_TRUE(client.ReadToEnd()) << name;
      EXPECT_EQ(client.found().substr(client.found().rfind("\r\n\r\n") + 4), wanted) << name;
      EXPECT_EQ(client.Statuses().back(), 200) << name << ": " << client.found();
    }
  }
}

}  // namespace
}  // namespace skein::server
