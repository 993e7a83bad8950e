// SPDX-License-Identifier: Apache-2.0
//
// Who comes in: keys, Hosts and Origins, by tables.
#include "server/http/gate.h"

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "server/http/request_id.h"
#include "server/http/test_client.h"

namespace skein::server {
namespace {

constexpr std::string_view kUserKey = "right-key-0123456789";
constexpr std::string_view kAdminKey = "admin-key-0123456789";

HttpOptions WithKeys() {
  HttpOptions options;
  options.api_keys = fmt::format("# two of them\n{} blue # a tenant\n\n{}\tred admin\r\n", kUserKey, kAdminKey);
  return options;
}

int Status(const TestServer& server, std::string_view method, std::string_view path, std::string_view headers) {
  const auto answer = server.Ask(
      fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{}\r\n", method, path, headers));
  const auto codes = TestClient::StatusesIn(answer);
  EXPECT_EQ(codes.size(), 1u) << answer;
  return codes.empty() ? 0 : codes[0];
}

// One forgotten route is an open server.
TEST(Gate, EveryRouteAsksForAKeyUnlessItIsDeclaredOpen) {
  TestServer server(WithKeys());
  std::vector<Route> routes = TestRoutes().routes();
  routes.emplace_back("GET", "/no/such/route", Scope::kUser, Handler());
  routes.emplace_back("PUT", "/live", Scope::kUser, Handler());  // an open path with another method
  const std::vector<std::pair<std::string, std::string>> without = {
      {"no key", ""},
      {"a wrong key", "Authorization: Bearer wrong-key-0123456789\r\n"},
      {"an empty key", "Authorization: Bearer \r\n"},
      {"a longer key", fmt::format("Authorization: Bearer {}x\r\n", kUserKey)},
      {"a shorter key", fmt::format("Authorization: Bearer {}\r\n", kUserKey.substr(1))},
      {"a prefix", fmt::format("Authorization: Bearer {}\r\n", kUserKey.substr(0, 9))},
      {"no scheme", fmt::format("Authorization: {}\r\n", kUserKey)},
      {"another scheme", fmt::format("Authorization: Basic {}\r\n", kUserKey)},
      {"two spaces", fmt::format("Authorization: Bearer  {}\r\n", kUserKey)},
      {"both keys", fmt::format("Authorization: Bearer {}\t{}\r\n", kUserKey, kAdminKey)},
      {"two headers", fmt::format("Authorization: Bearer {}\r\nAuthorization: Bearer {}\r\n", kUserKey, kUserKey)},
      {"a comment's word", "Authorization: Bearer #\r\n"},
      {"a tenant", "Authorization: Bearer blue\r\n"},
      {"a wrong x-api-key", "x-api-key: wrong-key-0123456789\r\n"},
      {"a key in the query's place", "Cookie: key=right-key-0123456789\r\n"},
  };
  for (const Route& route : routes) {
    std::string path = route.path;
    if (path.ends_with("{id}")) path.replace(path.size() - 4, 4, "some");
    for (const auto& [name, header] : without) {
      const int status = Status(server, route.method, path, header);
      EXPECT_EQ(status, route.scope == Scope::kOpen ? 200 : 401) << route.method << " " << path << " with " << name;
    }
    const bool known = route.handler != nullptr;
    const int wanted = known ? 200 : (path == "/live" ? 405 : 404);
    for (const std::string& form :
         {fmt::format("Authorization: Bearer {}\r\n", kAdminKey), fmt::format("X-Api-Key: {}\r\n", kAdminKey)}) {
      EXPECT_EQ(Status(server, route.method, path, form), wanted) << route.method << " " << path;
    }
    const int for_user = route.scope == Scope::kAdmin ? 403 : wanted;
    EXPECT_EQ(Status(server, route.method, path, fmt::format("Authorization: Bearer {}\r\n", kUserKey)), for_user)
        << path;
  }
  const auto answer = server.Ask("GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_NE(answer.find("\r\nWWW-Authenticate: Bearer\r\n"), std::string::npos);
}

// Without keys the routes of users are open, and those of admins are not.
TEST(Gate, WithoutKeysOnlyAdminRoutesAreShut) {
  TestServer server;
  EXPECT_EQ(Status(server, "GET", "/v1/models", ""), 200);
  EXPECT_EQ(Status(server, "POST", "/admin", ""), 403);
  EXPECT_EQ(Status(server, "GET", "/nowhere", ""), 404);
  const auto answer = server.Ask("DELETE /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 405 ")) << answer;
  EXPECT_NE(answer.find("\r\nAllow: GET, HEAD\r\n"), std::string::npos) << answer;
}

// The time of a comparison must not tell how much of a key was right.
TEST(ApiKeys, LooksAtAllKeysAndFindsTheRightOne) {
  ApiKeys keys;
  std::string text;
  for (int k = 0; k < 50; ++k) text += fmt::format("key-number-{:03} tenant-{}\n", k, k);
  ASSERT_TRUE(keys.Add(text, "test").ok());
  ASSERT_TRUE(keys.Add("key-number-007 again\nunnamed-key-1\n", "test").ok());
  for (int k = 0; k < 50; ++k) {
    const ApiKeys::Key* found = keys.Find(fmt::format("key-number-{:03}", k));
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->tenant, fmt::format("tenant-{}", k));  // of two equal ones the first
  }
  EXPECT_EQ(keys.Find("key-number-050"), nullptr);
  EXPECT_EQ(keys.Find(""), nullptr);
  // A key without a name is a tenant by its hash, not by itself.
  const ApiKeys::Key* unnamed = keys.Find("unnamed-key-1");
  ASSERT_NE(unnamed, nullptr);
  EXPECT_EQ(unnamed->tenant.find("unnamed"), std::string::npos);
  EXPECT_EQ(unnamed->tenant.size(), 16u);
}

// A key file with a slip must stop the start, not leave the server open or shut.
TEST(ApiKeys, RefusesWhatIsNoKeyFile) {
  for (const std::string text : {"", "\n# only a comment\n", "short\n", "long-enough-key tenant other\n",
                                 "long-enough-key tenant admin more\n", "k\xc3\xa4y-with-umlaut\n"}) {
    ApiKeys keys;
    const skein::Status status = keys.Add(text, "keys");
    EXPECT_FALSE(status.ok()) << text;
    EXPECT_EQ(status.message().find("long-enough-key"), std::string::npos);
    HttpOptions options;
    options.api_key_file = testing::TempDir() + "bad_keys";
    std::ofstream(options.api_key_file) << text;
    options.port = 0;
    EXPECT_FALSE(HttpServer::Start(options, TestRoutes()).ok()) << text;
  }
  HttpOptions options;
  options.api_key_file = testing::TempDir() + "no/such/file";
  EXPECT_FALSE(HttpServer::Start(options, TestRoutes()).ok());
}

// A key that every user of the machine can read is none.
TEST(ApiKeys, WarnsOfAFileThatOthersCanRead) {
  const std::string path = testing::TempDir() + "skein_keys";
  std::ofstream(path) << kUserKey << "\n";
  for (const auto& [mode, warns] : {std::pair{0600, false}, std::pair{0640, true}, std::pair{0604, true}}) {
    ASSERT_EQ(::chmod(path.c_str(), static_cast<mode_t>(mode)), 0);
    std::string said;
    HttpOptions options;
    options.api_key_file = path;
    options.log = [&](LogLevel, std::string_view text) { said += text; };
    TestServer server(options);
    EXPECT_EQ(said.find("chmod 600") != std::string::npos, warns) << mode << said;
    EXPECT_EQ(said.find(kUserKey), std::string::npos);
    EXPECT_EQ(Status(server, "GET", "/v1/models", fmt::format("Authorization: Bearer {}\r\n", kUserKey)), 200);
  }
}

HostPolicy Bound(std::string address, bool tls = false) {
  return HostPolicy({.tls = tls,
                     .address = std::move(address),
                     .port = 8000,
                     .hosts = {"Skein.Example"},
                     .origins = {"https://chat.example"}});
}

// A page whose name points at 127.0.0.1 could read everything.
TEST(HostPolicy, ForeignHostsAreRefused) {
  const HostPolicy loopback = Bound("127.0.0.1");
  for (const auto host : {"localhost", "LOCALHOST:8000", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:8000",
                          "skein.example", "SKEIN.example:443"}) {
    EXPECT_TRUE(loopback.AllowsHost(host)) << host;
  }
  for (const auto host : {"",
                          "evil.example",
                          "evil.example:8000",
                          "127.0.0.1.evil.example",
                          "localhost.evil.example",
                          "localhost.",
                          "xlocalhost",
                          "localhost:",
                          "localhost:a",
                          "localhost:80:80",
                          "localhost:99999",
                          "127.1",
                          "0x7f000001",
                          "2130706433",
                          "0.0.0.0",
                          "10.0.0.1",
                          "[::]",
                          "[::1",
                          "::1",
                          "[::1]x",
                          "[localhost]",
                          "a@localhost",
                          "localhost ",
                          "sub.skein.example"}) {
    EXPECT_FALSE(loopback.AllowsHost(host)) << host;
  }
  const HostPolicy everywhere = Bound("0.0.0.0");
  for (const auto host : {"localhost", "10.0.0.1:8000", "[fe80::1]", "skein.example"})
    EXPECT_TRUE(everywhere.AllowsHost(host)) << host;
  for (const auto host : {"evil.example", "10.0.0.1.evil.example", "10.1"})
    EXPECT_FALSE(everywhere.AllowsHost(host)) << host;
  EXPECT_TRUE(Bound("192.0.2.7").AllowsHost("192.0.2.7:8000"));
}

// A page from elsewhere could use the server, and its owner's electricity.
TEST(HostPolicy, ForeignOriginsAreRefused) {
  const std::string local = "127.0.0.1:8000", proxied = "skein.example", tunnel = "localhost:9000";
  const HostPolicy policy = Bound("127.0.0.1");
  const auto allows = [&](std::string_view origin, const std::string& host) {
    return policy.AllowsOrigin(origin, &host);
  };
  EXPECT_TRUE(allows("http://127.0.0.1:8000", local));
  EXPECT_TRUE(allows("http://localhost:8000", local));
  EXPECT_TRUE(allows("HTTP://[::1]:8000", local));
  EXPECT_TRUE(allows("https://chat.example", local));
  EXPECT_TRUE(allows("https://skein.example", proxied));  // a proxy in front made it https
  EXPECT_TRUE(allows("http://localhost:9000", tunnel));   // a forwarded port
  EXPECT_TRUE(policy.AllowsOrigin("http://localhost:8000", nullptr));
  for (const auto origin : {"null", "", "http://evil.example", "http://127.0.0.1", "http://127.0.0.1:8001",
                            "https://127.0.0.1:8000", "http://localhost:3000", "http://127.0.0.1:8000.evil.example",
                            "http://127.0.0.1:8000/", "http://chat.example", "https://chat.example.evil.example",
                            "file://", "chrome-extension://abc", "http://127.0.0.1:8000 http://evil.example",
                            "https://skein.example", "//127.0.0.1:8000", "ftp://127.0.0.1:8000"}) {
    EXPECT_FALSE(allows(origin, local)) << origin;
  }
  const HostPolicy secure = Bound("127.0.0.1", /*tls=*/true);
  EXPECT_TRUE(secure.AllowsOrigin("https://127.0.0.1:8000", &local));
  EXPECT_FALSE(secure.AllowsOrigin("http://127.0.0.1:8000", &local));
}

// A name with a scheme or a port would be taken and then match nothing: the operator would search for hours.
TEST(HostPolicy, NamesThatCannotMatchAreRefusedAtTheStart) {
  EXPECT_TRUE(CheckNames({}, {}).ok());
  for (const char* host : {"llm.example.org", "LLM.example.org", "192.168.0.7", "::1", "my_host"}) {
    EXPECT_TRUE(CheckNames({host}, {}).ok()) << host;
  }
  for (const char* host : {"", "https://llm.example.org", "llm.example.org/", "llm.example.org:8000", "[::1]", "*", "a b"}) {
    EXPECT_EQ(CheckNames({host}, {}).field(), "allowed_host") << host;
  }
  for (const char* origin : {"https://app.example.org", "http://localhost:3000", "chrome-extension://abcdef", "https://[::1]:8443"}) {
    EXPECT_TRUE(CheckNames({}, {origin}).ok()) << origin;
  }
  for (const char* origin : {"", "app.example.org", "https://app.example.org/", "https://", "://x", "*"}) {
    EXPECT_EQ(CheckNames({}, {origin}).field(), "allowed_origin") << origin;
  }
}

// The same over the wire: refused before the body, and without an invitation for the browser.
TEST(HostPolicy, RefusedPagesGetNoCorsHeaders) {
  TestServer server;
  for (const std::string method : {"GET", "POST", "OPTIONS"}) {
    const auto answer = server.Ask(method +
                                   " /v1/models HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n"
                                   "Access-Control-Request-Method: POST\r\nConnection: close\r\n\r\n");
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 403 ")) << answer;
    EXPECT_EQ(answer.find("Access-Control"), std::string::npos);
  }
  const auto own = server.Ask(
      fmt::format("GET /live HTTP/1.1\r\nHost: localhost\r\nOrigin: http://127.0.0.1:{}\r\nConnection: close\r\n\r\n",
                  server.port()));
  EXPECT_TRUE(own.starts_with("HTTP/1.1 200 ")) << own;
}

// Foreign ids end up in logs and in other services.
TEST(RequestId, OnlyWellFormedOnesAreTaken) {
  EXPECT_TRUE(IsRequestId("a.B_9-"));
  EXPECT_TRUE(IsRequestId(std::string(128, 'a')));
  EXPECT_FALSE(IsRequestId(std::string(129, 'a')));
  EXPECT_FALSE(IsRequestId(""));
  EXPECT_FALSE(IsRequestId("a b"));
  EXPECT_FALSE(IsRequestId("a\n"));
  EXPECT_EQ(NewRequestId().size(), 32u);
  EXPECT_NE(NewRequestId(), NewRequestId());
  EXPECT_TRUE(IsTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"));
  EXPECT_FALSE(IsTraceparent("00-00000000000000000000000000000000-00f067aa0ba902b7-01"));
  EXPECT_FALSE(IsTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"));
  EXPECT_FALSE(IsTraceparent("00-4BF92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"));
  EXPECT_FALSE(IsTraceparent("ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"));
  EXPECT_FALSE(IsTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more"));
}

// Otherwise who mistypes a path must guess what was wrong.
TEST(Gate, UnknownRoutesAreNamedWithTheNearest) {
  TestServer server;
  const auto answer = server.Ask("GET /v1/model HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 404 ")) << answer;
  EXPECT_NE(answer.find("there is no route /v1/model; did you mean /v1/models?"), std::string::npos) << answer;
  const auto odd = server.Ask("GET /something/else HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_NE(odd.find("there is no route /something/else\""), std::string::npos) << odd;
}

}  // namespace
}  // namespace skein::server
