// SPDX-License-Identifier: Apache-2.0
//
// The parts of `skein bench serve` that meet a server's bytes or turn times into figures.
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "bench_serve_events.h"
#include "bench_serve_figures.h"
#include "bench_serve_http.h"
#include "bench_serve_workload.h"

namespace skein::app {
namespace {

using State = HttpAnswerParser::State;

struct Parsed {
  HttpAnswerParser parser;
  std::string body;
};

// Feeds `text` in pieces of `step` bytes.
Parsed Parse(std::string_view text, std::size_t step) {
  Parsed parsed;
  for (std::size_t at = 0; at < text.size(); at += step) parsed.parser.Feed(text.substr(at, step), parsed.body);
  return parsed;
}

TEST(HttpAnswerParser, ReadsTheSameWhereverBytesAreCut) {
  // The network cuts where it likes: a parser that minds loses tokens or counts failures that are none.
  constexpr std::string_view kAnswer =
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5\r\ndata:\r\nB;ext=1\r\n {}\n\n: x\n\ny\r\n0\r\nTrailer: x\r\n\r\n";
  for (std::size_t step = 1; step <= kAnswer.size(); ++step) {
    const Parsed parsed = Parse(kAnswer, step);
    ASSERT_EQ(parsed.parser.state(), State::kDone) << step;
    EXPECT_EQ(parsed.parser.status(), 200);
    EXPECT_EQ(parsed.body, "data: {}\n\n: x\n\ny");
    EXPECT_TRUE(parsed.parser.keeps_connection());
  }
}

TEST(HttpAnswerParser, KnowsWhereBodiesEnd) {
  // A body that ends too early is a cut answer; one that ends too late waits for ever.
  Parsed sized = Parse("HTTP/1.1 429 Too Many\r\ncontent-length: 4\r\nConnection: close\r\n\r\nfull", 7);
  EXPECT_EQ(sized.parser.state(), State::kDone);
  EXPECT_EQ(sized.body, "full");
  EXPECT_FALSE(sized.parser.keeps_connection());
  EXPECT_EQ(Parse("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", 100).parser.state(), State::kDone);
  EXPECT_EQ(Parse("HTTP/1.1 204 Nothing\r\n\r\n", 100).parser.state(), State::kDone);
  Parsed open = Parse("HTTP/1.0 200 OK\r\n\r\nall of it", 100);
  EXPECT_EQ(open.parser.state(), State::kReading);
  EXPECT_EQ(open.parser.FeedEnd(), State::kDone);
  EXPECT_FALSE(open.parser.keeps_connection());
  Parsed cut = Parse("HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\nhalf", 100);
  EXPECT_EQ(cut.parser.FeedEnd(), State::kFailed);
  Parsed more = Parse("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1 200 OK\r\n\r\n", 100);
  EXPECT_EQ(more.parser.state(), State::kDone);
  EXPECT_FALSE(more.parser.keeps_connection()) << "the next answer would be one that nobody asked for";
}

TEST(HttpAnswerParser, RefusesWhatIsNoAnswer) {
  // A benchmark that trusts its server can be crashed, or filled, by it.
  for (const std::string_view text :
       {"SSH-2.0-OpenSSH\r\n", "HTTP/2 200\r\n\r\n", "HTTP/1.1 abc OK\r\n\r\n", "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n"}) {
    EXPECT_EQ(Parse(text, 3).parser.state(), State::kFailed) << text;
  }
  const std::string heads = "HTTP/1.1 200 OK\r\nX: " + std::string(1 << 20, 'x');
  EXPECT_EQ(Parse(heads, 1000).parser.state(), State::kFailed);
  const std::string size = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + std::string(1 << 20, '0');
  EXPECT_EQ(Parse(size, 1000).parser.state(), State::kFailed);
}

TEST(EventReader, CutsEvents) {
  // Two tokens read as one event would halve the token rate; one read as two doubles it.
  constexpr std::string_view kStream = ": ping\n\ndata: {\"a\":1}\r\n\r\nevent: x\ndata: one\ndata:two\nid: 3\n\n\n\ndata: [DONE]\n\ndata: cut";
  for (std::size_t step = 1; step <= kStream.size(); ++step) {
    EventReader reader;
    std::vector<std::string> events;
    for (std::size_t at = 0; at < kStream.size(); at += step) ASSERT_TRUE(reader.Feed(kStream.substr(at, step), events));
    EXPECT_EQ(events, (std::vector<std::string>{"{\"a\":1}", "one\ntwo", "[DONE]"})) << step;
  }
}

TEST(EventReader, IsBounded) {
  // A line without an end would take all memory of the machine that measures.
  for (const std::string_view unit : {"x", "data: x\n"}) {
    EventReader reader;
    std::vector<std::string> events;
    std::string block;
    while (block.size() < 65536) block += unit;
    bool goes_on = true;
    for (int i = 0; i < 1000 && goes_on; ++i) goes_on = reader.Feed(block, events);
    EXPECT_FALSE(goes_on) << unit;
  }
}

TEST(GenerationReader, TimesCompletionTokens) {
  GenerationReader reader;
  EXPECT_TRUE(reader.OnEvent(R"({"choices":[{"text":"a","finish_reason":null}]})", 0.5));
  EXPECT_TRUE(reader.OnEvent(R"({"choices":[{"text":"","finish_reason":null}]})", 0.75)) << "part of a character";
  EXPECT_TRUE(reader.OnEvent(R"({"choices":[{"text":"b","finish_reason":"length"}]})", 1.0));
  EXPECT_TRUE(reader.OnEvent(R"({"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}})", 1.5));
  EXPECT_TRUE(reader.OnEvent("[DONE]", 1.5));
  RequestOutcome outcome;
  reader.OnEnd(outcome);
  EXPECT_TRUE(outcome.completed) << outcome.failure;
  EXPECT_EQ(outcome.first_token_s, 0.5);
  EXPECT_EQ(outcome.end_s, 1.0);
  EXPECT_EQ(outcome.input_tokens, 7);
  EXPECT_EQ(outcome.output_tokens, 3);
  EXPECT_EQ(outcome.between_s, (std::vector<float>{0.25f, 0.25f}));
}

TEST(GenerationReader, ARoleIsNoToken) {
  // A server that greets before it computes would look as if its first token came at once.
  GenerationReader reader;
  EXPECT_TRUE(reader.OnEvent(R"({"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]})", 0.1));
  EXPECT_TRUE(reader.OnEvent(R"({"choices":[{"delta":{"reasoning_content":"hm"},"finish_reason":null}]})", 2.0));
  EXPECT_TRUE(reader.OnEvent(R"({"choices":[{"delta":{"content":"x"},"finish_reason":null}]})", 3.0));
  EXPECT_TRUE(reader.OnEvent(R"({"choices":[{"delta":{},"finish_reason":"stop"}]})", 3.5));
  EXPECT_TRUE(reader.OnEvent("[DONE]", 3.5));
  RequestOutcome outcome;
  reader.OnEnd(outcome);
  EXPECT_EQ(outcome.first_token_s, 2.0);
  EXPECT_EQ(outcome.between_s, (std::vector<float>{1.0f}));
  EXPECT_EQ(outcome.output_tokens, 2) << "events, when the server does not count";
}

TEST(GenerationReader, FailuresHaveReasons) {
  // "failed: 12" without why sends people into packet dumps.
  const auto outcome_of = [](std::vector<std::string> events) {
    GenerationReader reader;
    for (const std::string& event : events) reader.OnEvent(event, 1);
    RequestOutcome outcome;
    reader.OnEnd(outcome);
    EXPECT_FALSE(outcome.completed);
    return outcome.failure;
  };
  const std::string token = R"({"choices":[{"text":"a"}]})";
  EXPECT_NE(outcome_of({token}).find("[DONE]"), std::string::npos);
  EXPECT_NE(outcome_of({"[DONE]"}).find("no token"), std::string::npos);
  EXPECT_NE(outcome_of({token, "nonsense", "[DONE]"}).find("no JSON"), std::string::npos);
  EXPECT_NE(outcome_of({token, R"({"error":{"message":"out of\u001b[31m blocks"}})", "[DONE]"}).find("out of [31m blocks"), std::string::npos);
  outcome_of({R"([[[[[1]]]]])"});
  outcome_of({std::string(100'000, '[')});
}

TEST(Workload, TheSeedDecides) {
  // Two runs that are to be compared must have sent the same prompts.
  WorkloadOptions options;
  options.num_prompts = 20;
  options.input_tokens = 50;
  options.range_ratio = 0.5;
  options.request_rate = 10;
  const auto bodies = [&] {
    std::vector<std::string> found;
    const auto requests = MakeWorkload(options);
    for (const LoadRequest& request : *requests) found.push_back(request.body);
    return found;
  };
  const auto first = bodies();
  EXPECT_EQ(first, bodies());
  options.seed = 1;
  EXPECT_NE(first, bodies());
  EXPECT_NE(first[0], first[1]);
}

TEST(Workload, BodiesAreWhatWasAskedFor) {
  WorkloadOptions options;
  options.num_prompts = 3;
  options.input_tokens = 40;
  options.output_tokens = 9;
  options.prefix_tokens = 10;
  options.vocabulary = 1000;
  options.model = "m\"x";
  options.ignore_eos = true;
  const std::vector<LoadRequest> requests = MakeWorkload(options).value();
  ASSERT_EQ(requests.size(), 3u);
  std::vector<boost::json::array> prompts;
  for (const LoadRequest& request : requests) {
    const boost::json::object body = boost::json::parse(request.body).as_object();
    EXPECT_EQ(body.at("model").as_string(), "m\"x");
    EXPECT_EQ(body.at("max_tokens").as_int64(), 9);
    EXPECT_TRUE(body.at("ignore_eos").as_bool());
    EXPECT_TRUE(body.at("stream_options").at("include_usage").as_bool());
    prompts.push_back(body.at("prompt").as_array());
    ASSERT_EQ(prompts.back().size(), 50u);
    for (const auto& id : prompts.back()) EXPECT_TRUE(id.as_int64() >= 300 && id.as_int64() < 1000) << id.as_int64();
  }
  for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(prompts[0][i], prompts[1][i]);
  EXPECT_NE(prompts[0], prompts[1]);
  options.chat = true;
  const boost::json::value chat = boost::json::parse(MakeWorkload(options).value()[0].body);
  EXPECT_EQ(chat.at("messages").as_array().size(), 1u);
}

TEST(Workload, ArrivalsKeepTheirRate) {
  // A load that drifts from its rate measures another load.
  const std::vector<double> poisson = ArrivalTimes(2000, 50, 1, 3), even = ArrivalTimes(2000, 50, 100, 3), bursts = ArrivalTimes(2000, 50, 0.2, 3);
  const auto deviation = [](const std::vector<double>& times) {
    std::vector<double> gaps;
    for (std::size_t i = 1; i < times.size(); ++i) gaps.push_back(times[i] - times[i - 1]);
    return DistributionOf(gaps).deviation * 50;  // in mean gaps
  };
  EXPECT_NEAR(poisson.back(), 40, 1e-9);
  EXPECT_NEAR(deviation(poisson), 1, 0.15);
  EXPECT_NEAR(deviation(even), 0.1, 0.03);
  EXPECT_NEAR(deviation(bursts), 2.236, 0.4);
  EXPECT_EQ(ArrivalTimes(3, 0, 1, 3), (std::vector<double>{0, 0, 0}));
}

class TraceFile : public testing::Test {
 protected:
  Result<std::vector<LoadRequest>> Load(const std::string& text) {
    path_ = testing::TempDir() + "skein_trace_" + std::to_string(::testing::UnitTest::GetInstance()->random_seed()) + ".jsonl";
    std::ofstream(path_) << text;
    WorkloadOptions options;
    options.dataset = "trace:" + path_;
    Result<std::vector<LoadRequest>> requests = MakeWorkload(options);
    std::remove(path_.c_str());
    return requests;
  }
  std::string path_;
};

TEST_F(TraceFile, IsReplayedInOrderOfTime) {
  const auto requests = Load("{\"timestamp_ms\":2500,\"input_length\":3,\"output_length\":4}\n\n"
                             "{\"timestamp_ms\":500.0,\"prompt\":\"say \\\"hi\\\"\",\"max_tokens\":2}\n");
  ASSERT_TRUE(requests.ok()) << requests.status().message();
  ASSERT_EQ(requests->size(), 2u);
  EXPECT_EQ((*requests)[0].arrival_s, 0);
  EXPECT_EQ(boost::json::parse((*requests)[0].body).at("prompt").as_string(), "say \"hi\"");
  EXPECT_EQ((*requests)[1].arrival_s, 2);
  EXPECT_EQ(boost::json::parse((*requests)[1].body).at("prompt").as_array().size(), 3u);
}

TEST_F(TraceFile, ErrorsNameTheLine) {
  for (const std::string line : {"nonsense", "[]", "{}", "{\"input_length\":-1,\"output_length\":4}", "{\"input_length\":1e300,\"output_length\":4}",
                                  "{\"prompt\":\"x\"}", "{\"timestamp_ms\":1,\"input_length\":1,\"output_length\":1}"}) {
    const auto requests = Load("{\"input_length\":1,\"output_length\":1}\n" + line + "\n");
    ASSERT_FALSE(requests.ok()) << line;
    EXPECT_NE(requests.status().message().find("line 2"), std::string::npos) << requests.status().message();
  }
  EXPECT_FALSE(Load("").ok());
}

TEST(Figures, DistributionsAreThoseOfNumpy) {
  // Comparisons with results of other tools would compare definitions.
  const Distribution found = DistributionOf({4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(found.mean, 2.5);
  EXPECT_DOUBLE_EQ(found.median, 2.5);
  EXPECT_NEAR(found.deviation, 1.1180339887, 1e-9);
  EXPECT_NEAR(found.p99, 3.97, 1e-9);
  EXPECT_EQ(DistributionOf({}).mean, 0);
}

TEST(Figures, CountsWhatWasCompletedAndGood) {
  RequestOutcome quick{.completed = true, .failure = {}, .first_token_s = 0.1, .end_s = 1.1, .input_tokens = 5, .output_tokens = 11, .between_s = {}};
  RequestOutcome slow = quick;
  slow.first_token_s = 0.6;
  RequestOutcome failed;
  failed.failure = "status 429: full";
  RunFacts facts;
  facts.goals = ParseGoals({"ttft:500,e2el:2000"}).value();
  const Figures figures = FiguresOf(facts, {quick, slow, failed}, /*duration_s=*/2, /*concurrent_peak=*/3);
  const boost::json::value json = boost::json::parse(JsonOf(figures, "abc"));
  EXPECT_EQ(json.at("completed").as_int64(), 2);
  EXPECT_EQ(json.at("failed").as_int64(), 1);
  EXPECT_EQ(json.at("total_output_tokens").as_int64(), 22);
  EXPECT_EQ(json.at("output_throughput").to_number<double>(), 11);
  EXPECT_EQ(json.at("request_goodput").to_number<double>(), 0.5);
  EXPECT_EQ(json.at("failures").at("status 429: full").as_int64(), 1);
  EXPECT_NEAR(json.at("median_tpot_ms").to_number<double>(), 75, 1e-9);
  EXPECT_EQ(json.at("request_rate").as_string(), "inf");
  EXPECT_TRUE(json.at("max_concurrency").is_null());
  EXPECT_NE(TableOf(figures).find("status 429: full"), std::string::npos);
}

TEST(Figures, TheMostFrequentReasonsAreKept) {
  // Behind a hundred reasons that came once, the one that matters would not be seen.
  std::vector<RequestOutcome> outcomes(150);
  for (std::size_t i = 0; i < outcomes.size(); ++i) outcomes[i].failure = i < 100 ? "once " + std::to_string(i) : "status 429: full";
  const Figures figures = FiguresOf({}, outcomes, 1, 1);
  ASSERT_EQ(figures.failures.size(), Figures::kReasonsMax);
  EXPECT_EQ(figures.failures.front(), (std::pair<std::string, std::size_t>("status 429: full", 50)));
  std::size_t sum = 0;
  for (const auto& [reason, count] : figures.failures) sum += count;
  EXPECT_EQ(sum, 150u);
}

TEST(Figures, GoalsAreReadStrictly) {
  // A goal that is silently dropped makes every request good.
  for (const char* text : {"", "ttft", "ttft:", "ttft:0", "ttft:nan", "ttft:5x", "itl:5", "ttft:5,,", "ttft:-1"}) {
    EXPECT_FALSE(ParseGoals({text}).ok()) << text;
  }
}

}  // namespace
}  // namespace skein::app
