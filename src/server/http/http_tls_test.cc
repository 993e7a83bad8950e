// SPDX-License-Identifier: Apache-2.0
//
// The server by TLS, with a certificate that the test makes.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "server/http/test_client.h"

namespace skein::server {
namespace {

struct Files {
  std::string cert, key;
};

// A certificate for localhost, signed by itself, and its key.
Files MakeCertificate(const std::string& name) {
  Files files{testing::TempDir() + name + ".crt", testing::TempDir() + name + ".key"};
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* cert = X509_new();
  ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
  X509_gmtime_adj(X509_getm_notBefore(cert), -60);
  X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
  X509_set_pubkey(cert, key);
  X509_NAME* subject = X509_get_subject_name(cert);
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("localhost"), -1, -1,
                             0);
  X509_set_issuer_name(cert, subject);
  X509_sign(cert, key, EVP_sha256());
  std::FILE* file = std::fopen(files.cert.c_str(), "w");
  PEM_write_X509(file, cert);
  std::fclose(file);
  file = std::fopen(files.key.c_str(), "w");
  PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(file);
  X509_free(cert);
  EVP_PKEY_free(key);
  return files;
}

HttpOptions WithTls() {
  const Files files = MakeCertificate("skein_tls");
  HttpOptions options;
  options.tls_cert = files.cert;
  options.tls_key = files.key;
  return options;
}

// A client's end of TLS over a TestClient's socket, blocking.
class TlsClient {
 public:
  TlsClient(int port, int version_max = TLS1_3_VERSION) : client_(port), context_(SSL_CTX_new(TLS_client_method())) {
    // The library writes without MSG_NOSIGNAL.
    std::signal(SIGPIPE, SIG_IGN);
    SSL_CTX_set_security_level(context_, 0);
    SSL_CTX_set_min_proto_version(context_, 0);
    SSL_CTX_set_max_proto_version(context_, version_max);
    ssl_ = SSL_new(context_);
    SSL_set_fd(ssl_, client_.socket());
    connected_ = SSL_connect(ssl_) == 1;
  }
  ~TlsClient() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }

  bool connected() const { return connected_; }
  bool Send(std::string_view bytes) { return SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size())) > 0; }
  // Everything up to the server's end; `clean` tells whether it said that it ends.
  std::string ReadToEnd(bool& clean) {
    std::string found;
    char buffer[16384];
    int got = 0;
    while ((got = SSL_read(ssl_, buffer, sizeof buffer)) > 0) found.append(buffer, static_cast<std::size_t>(got));
    clean = SSL_get_error(ssl_, got) == SSL_ERROR_ZERO_RETURN;
    return found;
  }

 private:
  TestClient client_;
  SSL_CTX* context_;
  SSL* ssl_ = nullptr;
  bool connected_ = false;
};

// What is served plainly must be served by TLS: pipelines, large bodies both ways, a right end.
TEST(HttpTls, ServesTheSame) {
  TestServer server(WithTls());
  EXPECT_TRUE(server->url().starts_with("https://127.0.0.1:"));
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsClient client(server.port(), version);
    ASSERT_TRUE(client.connected());
    const std::string body(3'000'000, 'x');
    client.Send("GET /live HTTP/1.1\r\nHost: localhost\r\n\r\nGET /live HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client.Send(fmt::format("POST /echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                            body.size()));
    client.Send(body);
    bool clean = false;
    const std::string found = client.ReadToEnd(clean);
    EXPECT_EQ(TestClient::StatusesIn(found), (std::vector<int>{200, 200, 200}));
    EXPECT_TRUE(found.ends_with("\r\n\r\n" + body));
    EXPECT_TRUE(clean);
  }
}

// Versions with known holes must not be spoken.
TEST(HttpTls, RefusesOldVersions) {
  TestServer server(WithTls());
  EXPECT_FALSE(TlsClient(server.port(), TLS1_1_VERSION).connected());
  EXPECT_TRUE(TlsClient(server.port(), TLS1_2_VERSION).connected());
}

// A stream's client that leaves, and bytes that are no TLS, must hurt nobody else.
TEST(HttpTls, OutlivesPlainBytesAndClientsThatLeave) {
  HttpOptions options = WithTls();
  options.limits.header_time = std::chrono::milliseconds(100);
  std::atomic<int> gone{0};
  Router router = TestRoutes();
  router.Add(Route("GET", "/events", Scope::kOpen, [&](std::shared_ptr<Exchange> exchange) {
    exchange->BeginEvents();
    exchange->Send("data: " + std::string(2'000'000, 'x') + "\n\n");
    exchange->OnGone([&gone, exchange] { ++gone; });
  }));
  TestServer server(options, std::move(router));
  TestClient plain(server.port());
  plain.Send("GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(plain.ReadToEnd());
  EXPECT_TRUE(plain.Statuses().empty());
  TestClient silent(server.port());  // no handshake at all
  EXPECT_TRUE(silent.ReadToEnd());
  for (int k = 0; k < 10; ++k) {
    TlsClient client(server.port());
    ASSERT_TRUE(client.Send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  }
  EXPECT_TRUE(Eventually([&] { return gone == 10; }));
  TlsClient client(server.port());
  ASSERT_TRUE(client.Send("GET /live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
  bool clean = false;
  EXPECT_TRUE(client.ReadToEnd(clean).ends_with("live"));
}

// A wrong file must stop the start and say which it is.
TEST(HttpTls, NamesTheFileThatIsWrong) {
  const Files one = MakeCertificate("skein_one"), two = MakeCertificate("skein_two");
  const auto field = [](std::string cert, std::string key) {
    HttpOptions options;
    options.port = 0;
    options.tls_cert = std::move(cert);
    options.tls_key = std::move(key);
    const auto server = HttpServer::Start(options, TestRoutes());
    return server.ok() ? "" : server.status().field();
  };
  EXPECT_EQ(field(one.cert, one.key), "");
  EXPECT_EQ(field(one.key, one.key), "tls_cert");
  EXPECT_EQ(field(one.cert, one.cert), "tls_key");
  EXPECT_EQ(field(one.cert, two.key), "tls_key");
  EXPECT_EQ(field("no/such/file", one.key), "tls_cert");
  EXPECT_EQ(field(one.cert, ""), "tls_key");
  EXPECT_EQ(field("", one.key), "tls_cert");
}

}  // namespace
}  // namespace skein::server
