// SPDX-License-Identifier: Apache-2.0
#include "server/openai/answer_json.h"

#include <limits>

#include <boost/json.hpp>
#include <gtest/gtest.h>

#include "server/openai/logprobs_json.h"
#include "text/tiny_tokenizer.h"

namespace skein::server {
namespace {

using Kind = GenerationRequest::Kind;

boost::json::value EventJson(const std::string& event) {
  EXPECT_TRUE(event.starts_with("data: {"));
  EXPECT_TRUE(event.ends_with("}\n\n"));
  EXPECT_EQ(event.find('\n'), event.size() - 2) << "an event is one line";
  return boost::json::parse(event.substr(6));
}

class AnswerJsonTest : public testing::Test {
 protected:
  GenerationRequest Request(Kind kind) {
    GenerationRequest request;
    request.kind = kind;
    request.prompts.push_back({.tokens = {104, 105}, .text = "hi", .max_tokens = 8});
    return request;
  }
  AnswerWriter Writer(const GenerationRequest& request) {
    return AnswerWriter(*tokenizer_, request, {.id = "id-1", .created_s = 7, .model = "a \"model\"", .fingerprint = "fp_1"});
  }
  static TokenEntry Entry(TokenId token, float logprob, std::vector<scheduler::TokenLogprob> top = {}) {
    return {.scored = {.token = token, .logprob = logprob, .top = std::move(top)}};
  }

  const std::unique_ptr<text::Tokenizer> tokenizer_ = text::TinyTokenizer().Make();
};

TEST_F(AnswerJsonTest, ChunksAreWhatOfficialClientsRead) {
  // Streams would break in every client.
  GenerationRequest request = Request(Kind::kChat);
  request.include_usage = true;
  const AnswerWriter writer = Writer(request);
  std::string role, chunk, last, usage;
  writer.AppendRole(0, role);
  const boost::json::value first = EventJson(role);
  EXPECT_EQ(first.at("object"), "chat.completion.chunk");
  EXPECT_EQ(first.at("model"), "a \"model\"");
  EXPECT_EQ(first.at("system_fingerprint"), "fp_1");
  EXPECT_EQ(first.at("choices").at(0).at("delta").at("role"), "assistant");
  EXPECT_TRUE(first.at("usage").is_null());
  writer.AppendChunk(0, {.content = "a\n\"b\"", .reasoning = {}, .entries = {}, .token_ids = {}, .finish_reason = {}, .stop_reason = {}}, {}, chunk);
  const boost::json::value second = EventJson(chunk);
  EXPECT_EQ(second.at("choices").at(0).at("delta").at("content"), "a\n\"b\"");
  EXPECT_TRUE(second.at("choices").at(0).at("finish_reason").is_null());
  ChoicePiece end;
  end.finish_reason = "stop";
  end.stop_reason = "null";
  writer.AppendChunk(0, end, {}, last);
  EXPECT_EQ(EventJson(last).at("choices").at(0).at("finish_reason"), "stop");
  EXPECT_TRUE(EventJson(last).at("choices").at(0).at("delta").as_object().empty());
  writer.AppendUsage({.prompt_tokens = 2, .cached_tokens = 1, .completion_tokens = 3, .reasoning_tokens = 0}, usage);
  const boost::json::value counted = EventJson(usage);
  EXPECT_TRUE(counted.at("choices").as_array().empty());
  EXPECT_EQ(counted.at("usage").at("total_tokens"), 5);
  EXPECT_EQ(counted.at("usage").at("prompt_tokens_details").at("cached_tokens"), 1);
}

TEST_F(AnswerJsonTest, WithoutIncludeUsageNoChunkSpeaksOfIt) {
  // Strict clients refuse fields that they did not ask for.
  const GenerationRequest request = Request(Kind::kCompletion);
  std::string chunk;
  ChoicePiece piece;
  piece.content = "x";
  Writer(request).AppendChunk(0, piece, {}, chunk);
  const boost::json::value event = EventJson(chunk);
  EXPECT_EQ(event.at("object"), "text_completion");
  EXPECT_FALSE(event.as_object().contains("usage"));
  EXPECT_EQ(event.at("choices").at(0).at("text"), "x");
}

TEST_F(AnswerJsonTest, WholeAnswers) {
  // The plainest request of all.
  GenerationRequest request = Request(Kind::kChat);
  request.return_token_ids = true;
  WholeChoice choice;
  choice.piece.content = "yes";
  choice.piece.reasoning = "hm";
  choice.piece.token_ids = {1, 2};
  choice.piece.finish_reason = "stop";
  choice.piece.stop_reason = "\"!\"";
  const WholeChoice choices[] = {choice, choice};
  const boost::json::value body = boost::json::parse(Writer(request).Whole(choices, {.prompt_tokens = 2, .completion_tokens = 4}));
  EXPECT_EQ(body.at("object"), "chat.completion");
  EXPECT_EQ(body.at("choices").at(1).at("index"), 1);
  EXPECT_EQ(body.at("choices").at(0).at("message").at("content"), "yes");
  EXPECT_EQ(body.at("choices").at(0).at("message").at("reasoning_content"), "hm");
  EXPECT_EQ(body.at("choices").at(0).at("stop_reason"), "!");
  EXPECT_EQ(body.at("choices").at(0).at("token_ids").as_array().size(), 2u);
  EXPECT_EQ(body.at("prompt_token_ids").as_array().size(), 2u);
  EXPECT_TRUE(body.at("choices").at(0).at("logprobs").is_null());
  EXPECT_EQ(body.at("usage").at("total_tokens"), 6);
}

TEST_F(AnswerJsonTest, PromptsOfAListBelongToTheirChoices) {
  // The second prompt's choice would show the first prompt's ids.
  GenerationRequest request = Request(Kind::kCompletion);
  request.prompts.push_back({.tokens = {99}, .text = "c", .max_tokens = 8});
  request.return_token_ids = true;
  WholeChoice choice;
  choice.piece.finish_reason = "length";
  choice.piece.stop_reason = "null";
  const WholeChoice choices[] = {choice, choice};
  const boost::json::value body = boost::json::parse(Writer(request).Whole(choices, {}));
  EXPECT_EQ(body.at("choices").at(1).at("prompt_token_ids").at(0), 99);
}

TEST_F(AnswerJsonTest, LogprobsOfChat) {
  // Half a character would make the answer invalid JSON, or its bytes would be lost.
  JsonWriter json;
  const TokenEntry entries[] = {Entry(0xE2, -0.25f, {{0xE2, -0.25f}, {'a', -2.0f}, {'b', -3.0f}})};
  WriteChatLogprobs(*tokenizer_, entries, 2, json);
  const boost::json::value body = boost::json::parse(json.text());
  const boost::json::value& token = body.at("content").at(0);
  EXPECT_EQ(token.at("token"), "\\xe2");
  EXPECT_EQ(token.at("bytes").at(0), 0xE2);
  EXPECT_EQ(token.at("logprob").to_number<double>(), -0.25);
  EXPECT_EQ(token.at("top_logprobs").as_array().size(), 2u) << "as many as were asked for";
  EXPECT_EQ(token.at("top_logprobs").at(1).at("token"), "a");
}

TEST_F(AnswerJsonTest, LogprobsOfCompletions) {
  // Evaluation harnesses compare a token's value with the best alternative's.
  JsonWriter json;
  TokenEntry first = Entry('x', 0);
  first.has_logprob = false;
  const TokenEntry entries[] = {first, Entry('c', -5.0f, {{'a', -0.5f}, {'b', -1.5f}}), Entry(0xE2, -1.0f)};
  WriteCompletionLogprobs(*tokenizer_, entries, 2, json);
  const boost::json::value body = boost::json::parse(json.text());
  EXPECT_TRUE(body.at("token_logprobs").at(0).is_null());
  EXPECT_TRUE(body.at("top_logprobs").at(0).is_null());
  EXPECT_EQ(body.at("top_logprobs").at(1).as_object().size(), 3u) << "the token itself is always there";
  EXPECT_EQ(body.at("top_logprobs").at(1).at("c").to_number<double>(), -5.0);
  EXPECT_EQ(body.at("tokens").at(2), "bytes:\\xe2");
}

TEST_F(AnswerJsonTest, ForbiddenTokensHaveANumber) {
  // JSON has no infinity, and a null breaks clients that add log-probabilities up.
  JsonWriter json;
  const TokenEntry entries[] = {Entry('c', -std::numeric_limits<float>::infinity())};
  WriteCompletionLogprobs(*tokenizer_, entries, 0, json);
  EXPECT_EQ(boost::json::parse(json.text()).at("token_logprobs").at(0).to_number<double>(), -9999.0);
}

}  // namespace
}  // namespace skein::server
