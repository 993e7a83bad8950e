// SPDX-License-Identifier: Apache-2.0
//
// Answers, streams and clients that leave or stall, over real sockets.
#include "server/http/http_server.h"

#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>

#include "server/http/test_client.h"

namespace skein::server {
namespace {

using std::chrono::milliseconds;

const std::string kGetLive = "GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n";
const std::string kGetLater = "GET /later HTTP/1.1\r\nHost: localhost\r\n\r\n";

// A server whose route /later keeps the exchange for the test, which answers it by On.
class Later {
 public:
  explicit Later(HttpOptions options = {}) : server_(std::move(options), Routes()) {}

  TestServer& server() { return server_; }
  int port() { return server_.port(); }
  // Runs a function on the I/O thread and waits for its result.
  template <typename Function>
  auto OnLoop(Function function) {
    std::promise<decltype(function())> done;
    server_->Post([&] { done.set_value(function()); });
    return done.get_future().get();
  }
  bool Came(std::size_t count = 1) {
    return Eventually([&] { return OnLoop([&] { return kept_.size() == count; }); });
  }
  template <typename Function>
  void On(Function function, std::size_t index = 0) {
    OnLoop([&] {
      function(*kept_.at(index));
      return true;
    });
  }
  void Drop() {
    OnLoop([&] {
      kept_.clear();
      return true;
    });
  }
  int gone() {
    return OnLoop([&] { return gone_; });
  }
  int room() {
    return OnLoop([&] { return room_; });
  }

 private:
  Router Routes() {
    Router router = TestRoutes();
    router.Add(Route("GET", "/later", Scope::kOpen, [this](std::shared_ptr<Exchange> exchange) {
      exchange->OnGone([this] { ++gone_; });
      exchange->OnRoom([this] { ++room_; });
      kept_.push_back(std::move(exchange));
    }));
    return router;
  }

  // Before the server, which ends first and still calls back.
  std::vector<std::shared_ptr<Exchange>> kept_;
  int gone_ = 0, room_ = 0;
  TestServer server_;
};

HttpResponse Text(std::string body) {
  HttpResponse response;
  response.content_type = "text/plain";
  response.body = std::move(body);
  return response;
}

// The bytes of a chunked answer put together; `ended` tells whether its last chunk came.
std::string Unchunked(const std::string& found, bool& ended, int* chunks = nullptr) {
  std::string body;
  ended = false;
  std::size_t at = found.find("\r\n\r\n");
  if (at == std::string::npos) return body;
  at += 4;
  while (at < found.size()) {
    const std::size_t line = found.find("\r\n", at);
    if (line == std::string::npos) break;
    const std::size_t size = std::stoul(found.substr(at, line - at), nullptr, 16);
    if (size == 0) {
      ended = found.substr(line) == "\r\n\r\n";
      break;
    }
    body += found.substr(line + 2, size);
    at = line + 2 + size + 2;
    if (chunks != nullptr) ++*chunks;
  }
  return body;
}

// Every client library depends on these headers.
TEST(HttpServer, AnswersWithLengthServerAndRequestId) {
  TestServer server;
  const std::string answer =
      server.Ask("GET /live HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: my.id-1\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\nServer: skein\r\n")) << answer;
  EXPECT_NE(answer.find("\r\nContent-Length: 4\r\n"), std::string::npos);
  EXPECT_NE(answer.find("\r\nX-Request-Id: my.id-1\r\n"), std::string::npos);
  EXPECT_NE(answer.find("\r\nConnection: close\r\n"), std::string::npos);
  // An id with other characters could write lines of its own into a log.
  const std::string odd =
      server.Ask("GET /live HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: a b\"\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(odd.find("a b"), std::string::npos);
  EXPECT_NE(odd.find("\r\nX-Request-Id: "), std::string::npos);
}

// A HEAD with a body would be read as the next answer.
TEST(HttpServer, HeadHasTheLengthAndNoBody) {
  TestServer server;
  const std::string answer = server.Ask("HEAD /live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_NE(answer.find("\r\nContent-Length: 4\r\n"), std::string::npos);
  EXPECT_TRUE(answer.ends_with("\r\n\r\n"));
}

// A client that asks twice without waiting would get answers to the wrong questions.
TEST(HttpServer, PipelinedRequestsAreAnsweredInOrder) {
  Later later;
  TestClient client(later.port());
  client.Send(kGetLater + "GET /v1/models/b HTTP/1.1\r\nHost: localhost\r\n\r\n" + kGetLater);
  ASSERT_TRUE(later.Came());
  client.Send("GET /v1/models/c HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  later.On([](Exchange& exchange) { exchange.Respond(Text("a")); });
  ASSERT_TRUE(later.Came(2));
  later.On([](Exchange& exchange) { exchange.Respond(Text("d")); }, 1);
  ASSERT_TRUE(client.ReadToEnd());
  EXPECT_EQ(client.Statuses(), (std::vector<int>{200, 200, 200, 200})) << client.found();
  std::string bodies;
  for (std::size_t at = 0; (at = client.found().find("\r\n\r\n", at)) != std::string::npos; at += 4) {
    bodies += client.found().substr(at + 4, 1);
  }
  EXPECT_EQ(bodies, "abdc");
}

// Old load generators and probes speak HTTP/1.0.
TEST(HttpServer, Http10StaysOnlyWhenAsked) {
  TestServer server;
  EXPECT_TRUE(server.Ask("GET /live HTTP/1.0\r\n\r\n").ends_with("live"));
  TestClient client(server.port());
  client.Send("GET /live HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  ASSERT_TRUE(client.ReadUntil("live"));
  EXPECT_NE(client.found().find("Connection: keep-alive"), std::string::npos);
  client.Send("GET /live HTTP/1.0\r\n\r\n");
  EXPECT_TRUE(client.ReadToEnd());
}

// curl waits a second for it before each larger request.
TEST(HttpServer, AsksForTheBodyThatAClientHoldsBack) {
  TestServer server;
  TestClient client(server.port());
  client.Send(
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\nConnection: "
      "close\r\n\r\n");
  ASSERT_TRUE(client.ReadUntil("HTTP/1.1 100 Continue\r\n\r\n"));
  client.Send("hi");
  ASSERT_TRUE(client.ReadToEnd());
  EXPECT_TRUE(client.found().ends_with("hi"));
  // … and not for one that would be refused anyway.
  const std::string large =
      server.Ask("POST /echo HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 99999999\r\n\r\n");
  EXPECT_TRUE(large.starts_with("HTTP/1.1 413 ")) << large;
}

// Answers larger than any buffer must arrive whole.
TEST(HttpServer, LargeBodiesGoBothWays) {
  TestServer server;
  std::string body(9'000'000, ' ');
  for (std::size_t k = 0; k < body.size(); ++k) body[k] = static_cast<char>('a' + k % 23);
  TestClient client(server.port());
  client.Send(fmt::format("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                          body.size()));
  client.Send(body);
  ASSERT_TRUE(client.ReadToEnd());
  EXPECT_TRUE(client.found().ends_with(body));
}

// Clients read events as they come; a chunk for each would cost a packet for each.
TEST(HttpServer, EventsOfOneTurnLeaveTogether) {
  Later later;
  TestClient client(later.port());
  client.Send(kGetLater);
  ASSERT_TRUE(later.Came());
  later.On([](Exchange& exchange) { exchange.BeginEvents(); });
  ASSERT_TRUE(client.ReadUntil("\r\n\r\n"));
  EXPECT_NE(client.found().find("Content-Type: text/event-stream\r\n"), std::string::npos);
  EXPECT_NE(client.found().find("Transfer-Encoding: chunked\r\n"), std::string::npos);
  EXPECT_EQ(later.server()->streams(), 1u);
  later.On([](Exchange& exchange) {
    exchange.Send("data: 1\n\n");
    exchange.Send("data: 2\n\n");
  });
  ASSERT_TRUE(client.ReadUntil("data: 2\n\n\r\n"));
  later.On([](Exchange& exchange) {
    exchange.Send("data: [DONE]\n\n");
    exchange.EndEvents();
  });
  ASSERT_TRUE(client.ReadUntil("0\r\n\r\n"));
  bool ended = false;
  int chunks = 0;
  EXPECT_EQ(Unchunked(client.found(), ended, &chunks), "data: 1\n\ndata: 2\n\ndata: [DONE]\n\n");
  EXPECT_TRUE(ended);
  EXPECT_EQ(chunks, 2);
  EXPECT_EQ(later.server()->streams(), 0u);
  // The connection goes on, and the stream's end was not taken for the client's.
  client.Send(kGetLive);
  ASSERT_TRUE(client.ReadUntil("live"));
  EXPECT_EQ(later.gone(), 0);
}

// A client of HTTP/1.0 cannot read chunks.
TEST(HttpServer, EventsForHttp10EndWithTheConnection) {
  Later later;
  TestClient client(later.port());
  client.Send("GET /later HTTP/1.0\r\n\r\n");
  ASSERT_TRUE(later.Came());
  later.On([](Exchange& exchange) {
    exchange.BeginEvents();
    exchange.Send("data: 1\n\n");
    exchange.EndEvents();
  });
  ASSERT_TRUE(client.ReadToEnd());
  EXPECT_TRUE(client.found().ends_with("\r\n\r\ndata: 1\n\n")) << client.found();
}

// Proxies cut streams that are silent for a minute.
TEST(HttpServer, ASilentStreamGetsPings) {
  HttpOptions options;
  options.limits.ping_time = milliseconds(20);
  Later later(options);
  TestClient client(later.port());
  client.Send(kGetLater);
  ASSERT_TRUE(later.Came());
  later.On([](Exchange& exchange) { exchange.BeginEvents(); });
  ASSERT_TRUE(client.ReadUntil("8\r\n: ping\n\n\r\n8\r\n: ping\n\n\r\n"));
}

// A failed answer that ends like a whole one is a wrong answer.
TEST(HttpServer, AFailedStreamHasNoEnd) {
  Later later;
  TestClient client(later.port());
  client.Send(kGetLater);
  ASSERT_TRUE(later.Came());
  later.On([](Exchange& exchange) {
    exchange.BeginEvents();
    exchange.Send("data: 1\n\n");
    exchange.Fail();
  });
  ASSERT_TRUE(client.ReadToEnd());
  bool ended = true;
  EXPECT_EQ(Unchunked(client.found(), ended), "data: 1\n\n");
  EXPECT_FALSE(ended);
  EXPECT_EQ(later.gone(), 0);
}

// A handler that forgets a request must not let its client wait for ever.
TEST(HttpServer, AnExchangeThatIsLetGoOfAnswers500) {
  Later later;
  TestClient client(later.port());
  client.Send(kGetLater);
  ASSERT_TRUE(later.Came());
  later.Drop();
  ASSERT_TRUE(client.ReadUntil("\"code\":null}}"));
  EXPECT_EQ(client.Statuses(), std::vector<int>{500});
  client.TakeFound();
  client.Send(kGetLater);
  ASSERT_TRUE(later.Came());
  later.On([](Exchange& exchange) { exchange.BeginEvents(); });
  later.Drop();
  ASSERT_TRUE(client.ReadToEnd());
  bool ended = true;
  Unchunked(client.found(), ended);
  EXPECT_FALSE(ended);
}

// Tokens for nobody keep others waiting.
TEST(HttpServer, AClientThatLeavesIsNoticedOnceAndAtOnce) {
  Later later;
  for (const bool streaming : {false, true}) {
    for (const bool reset : {false, true}) {
      const int before = later.gone();
      TestClient client(later.port());
      client.Send(kGetLater);
      ASSERT_TRUE(later.Came());
      if (streaming) {
        later.On([](Exchange& exchange) { exchange.BeginEvents(); });
        client.ReadUntil("\r\n\r\n");
      }
      if (reset) {
        const linger hard{.l_onoff = 1, .l_linger = 0};
        setsockopt(client.socket(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
      }
      client.Close();
      EXPECT_TRUE(Eventually([&] { return later.gone() == before + 1; })) << streaming << reset;
      // Whoever has not heard yet may go on as if nothing had happened.
      later.On([&](Exchange& exchange) {
        EXPECT_FALSE(exchange.open());
        if (streaming) {
          exchange.Send("data: 1\n\n");
          exchange.EndEvents();
        } else {
          exchange.Respond(Text("late"));
        }
        EXPECT_EQ(exchange.unsent_bytes(), 0u);
      });
      later.Drop();
      EXPECT_EQ(later.gone(), before + 1);
    }
  }
  EXPECT_TRUE(Eventually([&] { return later.server()->connections() == 0; }));
  EXPECT_EQ(later.server()->streams(), 0u);
}

// A client that sends its next request early must not hide from us that it leaves.
TEST(HttpServer, AClientThatLeavesAfterPipeliningIsNoticed) {
  Later later;
  TestClient client(later.port());
  client.Send(kGetLater + kGetLive);
  ASSERT_TRUE(later.Came());
  client.Close();
  EXPECT_TRUE(Eventually([&] { return later.gone() == 1; }));
}

// Nor one that sends so much early that we stop reading: its answer would be computed to the end, for nobody.
TEST(HttpServer, AClientThatLeavesAfterPipeliningMuchIsNoticed) {
  for (const bool streaming : {false, true}) {
    Later later;
    TestClient client(later.port());
    std::string bytes = kGetLater;
    while (bytes.size() < 64 * 1024) bytes += kGetLive;
    client.Send(bytes);
    ASSERT_TRUE(later.Came());
    if (streaming) later.On([](Exchange& exchange) { exchange.BeginEvents(); });
    ::usleep(50'000);  // for what was sent to be read, as far as it is
    EXPECT_EQ(later.gone(), 0);
    client.Close();
    EXPECT_TRUE(Eventually([&] { return later.gone() == 1; })) << streaming;
  }
}

// A request that may last a day and is answered at once must leave nothing behind: many of them would fill the memory.
TEST(HttpServer, ATimerThatIsLetGoOfIsOffAndHoldsNothing) {
  Later later;
  const auto called = std::make_shared<std::atomic<int>>(0);
  Timer day, soon;
  later.OnLoop([&] {
    day = later.server()->After(std::chrono::hours(24), [called] { ++*called; });
    soon = later.server()->After(milliseconds(1), [called] { *called += 10; });
    return true;
  });
  EXPECT_EQ(called.use_count(), 3);
  EXPECT_TRUE(Eventually([&] { return called->load() == 10; }));
  later.OnLoop([&] {
    // The second one's time comes before the loop gets to its call, and yet it is off.
    Timer off = later.server()->After(milliseconds(0), [called] { *called += 100; });
    ::usleep(5'000);
    day = nullptr;
    return true;
  });
  EXPECT_TRUE(Eventually([&] { return later.OnLoop([&] { return called.use_count() == 1; }); }));
  EXPECT_EQ(called->load(), 10);
  later.OnLoop([&] {
    soon = nullptr;
    return true;
  });
}

// netcat and old scripts close their half when they have asked.
TEST(HttpServer, AnAnswerThatIsReadyReachesAClientThatClosedItsHalf) {
  TestServer server;
  TestClient client(server.port());
  client.Send(kGetLive + kGetLive);
  client.HalfClose();
  ASSERT_TRUE(client.ReadToEnd());
  EXPECT_EQ(client.Statuses(), (std::vector<int>{200, 200})) << client.found();
}

// One reader that stops would fill the memory, and hold its sequence's KV for ever.
TEST(HttpServer, ASlowReaderIsPausedAndThenCut) {
  HttpOptions options;
  options.limits.stalled_time = milliseconds(300);
  Later later(options);
  TestClient client(later.port(), /*receive_bytes=*/4096);
  client.Send(kGetLater);
  ASSERT_TRUE(later.Came());
  std::size_t sent = 0;
  later.On([](Exchange& exchange) { exchange.BeginEvents(); });
  const std::string event = "data: " + std::string(8000, 'x') + "\n\n";
  const auto fill = [&] {
    later.On([&](Exchange& exchange) {
      while (exchange.open() && exchange.unsent_bytes() <= kUnsentMax) {
        exchange.Send(event);
        sent += event.size();
      }
    });
  };
  fill();
  // Reads: there is room again, nobody is cut, and nothing is lost.
  while (later.room() == 0) ASSERT_TRUE(client.ReadBytes(client.found().size() + 1));
  EXPECT_EQ(later.gone(), 0);
  // Stops reading while more is made.
  for (int k = 0; k < 1000 && later.gone() == 0; ++k) {
    fill();
    ::usleep(5000);
  }
  EXPECT_EQ(later.gone(), 1);
  bool ended = true;
  client.ReadToEnd();
  const std::string body = Unchunked(client.found(), ended);
  EXPECT_FALSE(ended);
  EXPECT_LE(body.size(), sent);
}

// A phone on a bad line would lose its answer although its bytes keep coming.
TEST(HttpServer, AReaderThatIsSlowForLongerThanTheLimitIsNotCut) {
  HttpOptions options;
  options.limits.stalled_time = milliseconds(1500);
  Later later(options);
  TestClient client(later.port(), /*receive_bytes=*/4096);
  client.Send(kGetLater);
  ASSERT_TRUE(later.Came());
  std::string wanted;
  later.On([&](Exchange& exchange) {  // more than the kernel holds, so that some of it waits for the socket
    exchange.BeginEvents();
    while (wanted.size() < 2'000'000) wanted += fmt::format("data: {}\n\n", wanted.size());
    exchange.Send(wanted);
    exchange.EndEvents();
  });
  // 20 kB/s: the socket is not writable again for seconds, since that takes a third of what the kernel holds.
  std::string slowly(1024, '\0');
  std::string found;
  for (int k = 0; k < 70; ++k) {
    const ssize_t got = ::recv(client.socket(), slowly.data(), slowly.size(), 0);
    ASSERT_GT(got, 0) << "cut after " << found.size() << " bytes";
    found.append(slowly, 0, static_cast<std::size_t>(got));
    ::usleep(50'000);
  }
  ASSERT_TRUE(client.ReadUntil("\r\n0\r\n\r\n"));
  bool ended = false;
  EXPECT_EQ(Unchunked(found + client.found(), ended), wanted);
  EXPECT_TRUE(ended);
}

// A reader that is slow but reads gets everything.
TEST(HttpServer, AReaderWithASmallWindowGetsEverythingInOrder) {
  Later later;
  TestClient client(later.port(), /*receive_bytes=*/4096);
  client.Send(kGetLater);
  ASSERT_TRUE(later.Came());
  std::string wanted;
  later.On([&](Exchange& exchange) {
    exchange.BeginEvents();
    for (int k = 0; k < 40'000; ++k) {
      const std::string event = fmt::format("data: {}\n\n", k);
      exchange.Send(event);
      wanted += event;
    }
    exchange.EndEvents();
  });
  ASSERT_TRUE(client.ReadUntil("\r\n0\r\n\r\n"));
  bool ended = false;
  EXPECT_EQ(Unchunked(client.found(), ended), wanted);
  EXPECT_TRUE(ended);
}

HttpOptions ShortTimes() {
  HttpOptions options;
  options.limits.header_time = milliseconds(100);
  options.limits.body_time = milliseconds(100);
  options.limits.body_rate = 1'000'000;
  options.limits.idle_time = milliseconds(100);
  return options;
}

// Each connection that trickles would be held for as long as its client likes.
TEST(HttpServer, HeadersThatDoNotEndAreCut) {
  TestServer server(ShortTimes());
  TestClient client(server.port());
  client.Send("GET /live HTTP/1.1\r\nHost: localhost\r\nX-Slow: ");
  int trickled = 0;
  while (trickled < 10'000 && client.Send("a")) {
    ++trickled;
    ::usleep(10'000);
  }
  EXPECT_LT(trickled, 10'000);
  EXPECT_TRUE(client.ReadToEnd());
  EXPECT_EQ(client.Statuses(), std::vector<int>{408});
  EXPECT_TRUE(server.Serves());
}

TEST(HttpServer, ABodyThatComesTooSlowlyIsCut) {
  // … with the memory that it has filled so far.
  TestServer server(ShortTimes());
  for (const std::string_view framing :
       {"Content-Length: 1000000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\nf0000\r\n"}) {
    TestClient client(server.port());
    client.Send(fmt::format("POST /echo HTTP/1.1\r\nHost: localhost\r\n{}", framing));
    for (int k = 0; k < 10'000 && client.Send("a"); ++k) ::usleep(10'000);
    EXPECT_TRUE(client.ReadToEnd());
    EXPECT_EQ(client.Statuses(), std::vector<int>{408});
  }
}

TEST(HttpServer, IdleConnectionsAreClosed) {
  // They would use up the descriptors.
  TestServer server(ShortTimes());
  TestClient silent(server.port()), used(server.port());
  used.Send(kGetLive);
  EXPECT_TRUE(used.ReadToEnd());
  EXPECT_TRUE(silent.ReadToEnd());
  EXPECT_EQ(silent.found(), "");
  EXPECT_EQ(used.Statuses(), std::vector<int>{200});
}

// A long answer has no time limit: the first token may take minutes.
TEST(HttpServer, WaitingForAnAnswerIsNoIdleness) {
  HttpOptions options = ShortTimes();
  options.limits.stalled_time = milliseconds(50);
  Later later(options);
  TestClient client(later.port());
  client.Send(kGetLater);
  ASSERT_TRUE(later.Came());
  ::usleep(400'000);
  EXPECT_EQ(later.gone(), 0);
  later.On([](Exchange& exchange) { exchange.Respond(Text("late")); });
  EXPECT_TRUE(client.ReadUntil("late"));
}

// Half of all memory is enough for an attack by large bodies that never end.
TEST(HttpServer, BodiesOfAllClientsTogetherAreBounded) {
  HttpOptions options;
  options.limits.bodies_bytes = 1'000'000;
  TestServer server(options);
  const std::string head = "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 600001\r\n\r\n";
  TestClient one(server.port()), two(server.port());
  one.Send(head + std::string(600'000, 'x'));
  two.Send(head + std::string(600'000, 'x'));
  // Whichever the server reads to beyond the limit is refused; that may be either.
  pollfd answered[] = {{one.socket(), POLLIN, 0}, {two.socket(), POLLIN, 0}};
  ASSERT_GT(::poll(answered, 2, 20'000), 0);
  TestClient& refused = answered[0].revents != 0 ? one : two;
  TestClient& served = answered[0].revents != 0 ? two : one;
  ASSERT_TRUE(refused.ReadToEnd());
  EXPECT_EQ(refused.Statuses(), std::vector<int>{503});
  served.Send("x");
  ASSERT_TRUE(served.ReadUntil("\r\n\r\n"));
  EXPECT_EQ(served.Statuses(), std::vector<int>{200});
  // Given back: the next one fits.
  served.Send("POST /echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 900000\r\n\r\n" +
              std::string(900'000, 'x'));
  ASSERT_TRUE(served.ReadToEnd());
  EXPECT_EQ(served.Statuses(), (std::vector<int>{200, 200}));
}

// Somebody who opens connections and leaves them would shut everybody else out.
TEST(HttpServer, IdleConnectionsGiveWayWhenAllPlacesAreTaken) {
  HttpOptions options;
  options.limits.connections = 8;
  TestServer server(options);
  std::vector<std::unique_ptr<TestClient>> idle;
  for (int k = 0; k < 20; ++k) idle.push_back(std::make_unique<TestClient>(server.port()));
  for (int k = 0; k < 5; ++k) EXPECT_TRUE(server.Serves());
  EXPECT_LE(server->connections(), 8u + 1u);
}

TEST(HttpServer, SlowHeadersGiveWayWhenAllPlacesAreTaken) {
  // The same by a drip of headers; normal requests come in within a second or two.
  HttpOptions options;
  options.limits.connections = 8;
  TestServer server(options);
  std::vector<std::unique_ptr<TestClient>> slow;
  for (int k = 0; k < 8; ++k) {
    slow.push_back(std::make_unique<TestClient>(server.port()));
    slow.back()->Send("GET /live HTTP/1.1\r\nX-Slow: ");
  }
  EXPECT_TRUE(server.Serves());
}

// Out of descriptors is a bad minute, not the end.
TEST(HttpServer, RunsOutOfDescriptorsAndRecovers) {
  TestServer server;
  ASSERT_TRUE(server.Serves());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  TestClient client(server.port());
  ASSERT_TRUE(Eventually([&] { return server->connections() == 1; }));
  const int second = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  rlimit small = before;
  small.rlim_cur = static_cast<rlim_t>(second) + 32;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &small), 0);
  std::vector<int> filling;
  for (int file = 0; (file = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) filling.push_back(file);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(server.port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::connect(second, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  // Those who are in are served meanwhile, unless they are idle and make place.
  ::send(second, kGetLive.data(), kGetLive.size(), MSG_NOSIGNAL);
  ::usleep(100'000);
  for (const int file : filling) ::close(file);
  setrlimit(RLIMIT_NOFILE, &before);
  char byte = 0;
  EXPECT_EQ(::recv(second, &byte, 1, 0), 1);  // a hang is the test's own time limit
  EXPECT_EQ(byte, 'H');
  ::close(second);
  EXPECT_TRUE(server.Serves());
}

// A rolling restart must not cut answers, nor keep clients whose next request would find nobody.
TEST(HttpServer, DrainingEndsIdleConnectionsAndLetsAnswersFinish) {
  Later later;
  TestClient idle(later.port()), busy(later.port()), stream(later.port());
  idle.Send(kGetLive);
  ASSERT_TRUE(idle.ReadUntil("live"));
  busy.Send(kGetLater);
  stream.Send(kGetLater);
  ASSERT_TRUE(later.Came(2));
  later.server()->StopAccepting();
  EXPECT_TRUE(idle.ReadToEnd());
  // The door stays open for those who ask how we are.
  TestClient asks(later.port());
  asks.Send(kGetLive);
  ASSERT_TRUE(asks.ReadToEnd());
  EXPECT_NE(asks.found().find("Connection: close\r\n"), std::string::npos);
  EXPECT_TRUE(asks.found().ends_with("live"));
  later.On([](Exchange& exchange) { exchange.Respond(Text("whole")); }, 0);
  later.On(
      [](Exchange& exchange) {
        exchange.BeginEvents();
        exchange.Send("data: whole\n\n");
        exchange.EndEvents();
      },
      1);
  EXPECT_TRUE(busy.ReadToEnd());
  EXPECT_TRUE(stream.ReadToEnd());
  EXPECT_TRUE((busy.found() + stream.found()).find("Connection: close") != std::string::npos);
  EXPECT_NE((busy.found() + stream.found()).find("\r\n\r\nwhole"), std::string::npos);
  EXPECT_NE((busy.found() + stream.found()).find("data: whole\n\n\r\n0\r\n\r\n"), std::string::npos);
  EXPECT_TRUE(Eventually([&] { return later.server()->connections() == 0; }));
}

// Stopping once everything is answered would cut the end of an answer that its client has not taken yet.
TEST(HttpServer, EverythingIsAnsweredOnceTheLastByteIsTaken) {
  Later later;
  TestClient client(later.port(), /*receive_bytes=*/4096);
  client.Send(kGetLater);
  ASSERT_TRUE(later.Came());
  std::atomic<bool> answered{false};
  const auto wait = [&] { later.server()->WhenAnswered([&] { answered = true; }); };
  later.server()->Post(wait);
  later.On([&](Exchange& exchange) {
    exchange.BeginEvents();
    exchange.Send("data: " + std::string(2'000'000, 'x') + "\n\n");
    exchange.EndEvents();
  });
  ASSERT_TRUE(client.ReadUntil("xxxx"));
  EXPECT_FALSE(answered);
  ASSERT_TRUE(client.ReadUntil("\r\n0\r\n\r\n"));
  EXPECT_TRUE(Eventually([&] { return answered.load(); }));
  answered = false;
  later.server()->Post(wait);  // with nothing to wait for
  EXPECT_TRUE(Eventually([&] { return answered.load(); }));
}

// Whoever makes tokens for a request must hear that the server has stopped.
TEST(HttpServer, StoppingTellsTheOwnersOfOpenAnswers) {
  std::atomic<int> gone{0};
  std::shared_ptr<Exchange> kept;
  std::atomic<bool> came{false};
  Router router;
  router.Add(Route("GET", "/later", Scope::kOpen, [&](std::shared_ptr<Exchange> exchange) {
    // Its owner may even be held by its own callback.
    exchange->OnGone([&gone, exchange] { ++gone; });
    kept = std::move(exchange);
    came = true;
  }));
  TestServer server({}, std::move(router));
  TestClient client(server.port());
  client.Send(kGetLater);
  ASSERT_TRUE(Eventually([&] { return came.load(); }));
  server->Stop();
  EXPECT_EQ(gone, 1);
  EXPECT_EQ(kept.use_count(), 1);
  EXPECT_TRUE(client.ReadToEnd());
  kept->Respond(Text("nobody"));
  server->Stop();
}

// One line per answer in the log and in the metrics, refused ones too.
TEST(HttpServer, EveryAnswerIsNotedOnce) {
  std::mutex mutex;
  std::vector<std::string> notes;
  HttpOptions options;
  options.on_answer = [&](const AnswerNote& note) {
    const std::lock_guard lock(mutex);
    notes.push_back(fmt::format("{} {} {}{}", note.route, note.status,
                                note.request == nullptr ? "-" : note.request->path, note.cut ? " cut" : ""));
  };
  TestServer server(options);
  server.Ask("GET /v1/models/x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  server.Ask("GET /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  server.Ask("GET / HTTP/7.0\r\n\r\n");
  server->Stop();
  EXPECT_EQ(notes, (std::vector<std::string>{"/v1/models/{id} 200 /v1/models/x", " 404 -", " 505 -"}));
}

// Who left before an answer would stand in the log with a status that no tool knows.
TEST(HttpServer, WhoLeavesBeforeTheAnswerHasAStatusIsNotedAs499) {
  std::mutex mutex;
  std::vector<std::string> notes;
  HttpOptions options;
  options.on_answer = [&](const AnswerNote& note) {
    const std::lock_guard lock(mutex);
    notes.push_back(fmt::format("{} {}{}", note.route, note.status, note.cut ? " cut" : ""));
  };
  const auto noted = [&] {
    const std::lock_guard lock(mutex);
    return notes;
  };
  Later later(options);
  TestClient early(later.port()), late(later.port());
  early.Send(kGetLater);
  ASSERT_TRUE(later.Came());
  early.Close();
  EXPECT_TRUE(Eventually([&] { return noted() == std::vector<std::string>{"/later 499 cut"}; }));
  late.Send(kGetLater);
  ASSERT_TRUE(later.Came(2));
  later.On([](Exchange& exchange) { exchange.BeginEvents(); }, 1);
  late.Close();
  EXPECT_TRUE(Eventually([&] { return noted() == std::vector<std::string>{"/later 499 cut", "/later 200 cut"}; }));
}

// Streams of many clients, half of them gone at random: nobody else may notice.
TEST(HttpServer, HalfOfManyStreamsLeaveAndTheOthersGetEverything) {
  constexpr std::size_t kStreams = 50;
  Later later;
  std::vector<std::unique_ptr<TestClient>> clients;
  for (std::size_t k = 0; k < kStreams; ++k) {
    clients.push_back(std::make_unique<TestClient>(later.port()));
    clients.back()->Send(kGetLater);
    ASSERT_TRUE(later.Came(k + 1));  // so that kept_[k] is client k's
  }
  std::string wanted;
  for (int event = 0; event < 40; ++event) {
    const std::string text = fmt::format("data: {}\n\n", event);
    wanted += text;
    later.OnLoop([&] { return true; });
    for (std::size_t k = 0; k < kStreams; ++k) {
      later.On(
          [&](Exchange& exchange) {
            if (event == 0) exchange.BeginEvents();
            exchange.Send(text);
          },
          k);
    }
    if (event % 2 == 1 && event / 2 < static_cast<int>(kStreams) / 2) clients[static_cast<std::size_t>(event)]->Close();
  }
  for (std::size_t k = 0; k < kStreams; ++k) later.On([](Exchange& exchange) { exchange.EndEvents(); }, k);
  int left = 0;
  for (std::size_t k = 0; k < kStreams; ++k) {
    if (clients[k]->socket() < 0) {
      ++left;
      continue;
    }
    ASSERT_TRUE(clients[k]->ReadUntil("\r\n0\r\n\r\n"));
    bool ended = false;
    EXPECT_EQ(Unchunked(clients[k]->found(), ended), wanted);
    EXPECT_TRUE(ended);
  }
  EXPECT_EQ(left, 20);
  EXPECT_TRUE(Eventually([&] { return later.server()->connections() == kStreams - static_cast<std::size_t>(left); }));
  EXPECT_EQ(later.server()->streams(), 0u);
}

// Somebody else's server on the port must be a clear error, not a silent second one.
TEST(HttpServer, SaysWhenItCannotListen) {
  TestServer first;
  HttpOptions options;
  options.port = first.port();
  const auto second = HttpServer::Start(options, TestRoutes());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), Code::kUnavailable);
  EXPECT_NE(second.status().message().find(std::to_string(first.port())), std::string::npos);
  options.host = "no.such.host.invalid";
  EXPECT_EQ(HttpServer::Start(options, TestRoutes()).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace skein::server
