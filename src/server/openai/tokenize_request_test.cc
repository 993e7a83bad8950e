// SPDX-License-Identifier: Apache-2.0
#include "server/openai/tokenize_request.h"

#include "server/openai/embedding_request.h"
#include "server/openai/request_testing.h"

namespace skein::server {
namespace {

class TokenizeRequest : public testing::Test {
 protected:
  std::string Answer(const std::string& body) {
    const ApiResult<std::string> answer = Tokenize(RequestOf(body), model_.card);
    return answer.ok() ? *answer : answer.error().param;
  }
  std::string Text(const std::string& body) {
    const ApiResult<std::string> answer = Detokenize(RequestOf(body), model_.card);
    return answer.ok() ? *answer : answer.error().param;
  }
  TinyModel model_;
};

TEST_F(TokenizeRequest, GivesIdsAndTheirCount) {
  // Clients count with it before they ask.
  EXPECT_EQ(Answer(R"({"model": "tiny", "prompt": "he<|end|>", "add_special_tokens": false})"),
            R"({"count":2,"max_model_len":64,"tokens":[256,400]})");
  EXPECT_EQ(Answer(R"({"content": "he"})"), R"({"count":1,"max_model_len":64,"tokens":[256]})");
  EXPECT_EQ(Answer(R"({"prompt": ""})"), R"({"count":0,"max_model_len":64,"tokens":[]})");
  EXPECT_EQ(Answer(R"({"prompt": "he<|end|>", "return_token_strs": true})"),
            R"({"count":2,"max_model_len":64,"tokens":[256,400],"token_strs":["he","<|end|>"]})");
}

TEST_F(TokenizeRequest, CountsConversationsAsChatDoes) {
  // A count that differs from usage.prompt_tokens is useless for cutting a conversation.
  EXPECT_EQ(Answer(R"({"messages": [{"role": "tool", "content": "<|end|>"}]})").find(R"({"count":)"), 0u);
  EXPECT_EQ(Answer(R"({"messages": [{"role": "tool", "content": "he"}], "add_generation_prompt": false})"),
            R"({"count":8,"max_model_len":64,"tokens":[400,116,111,111,108,58,256,10]})");
}

TEST_F(TokenizeRequest, RefusesUnclearBodies) {
  // Two sources are two answers.
  EXPECT_EQ(Answer("{}"), "prompt");
  EXPECT_EQ(Answer(R"({"prompt": "a", "content": "b"})"), "content");
  EXPECT_EQ(Answer(R"({"prompt": "a", "messages": []})"), "messages");
  EXPECT_EQ(Answer(R"({"messages": []})"), "messages");
  EXPECT_EQ(Answer(R"({"prompt": 5})"), "prompt");
  EXPECT_EQ(Answer(R"({"model": "other", "prompt": "a"})"), "model");
}

TEST_F(TokenizeRequest, DetokenizesWhatItTokenized) {
  // A client that cuts by tokens gets its text back.
  EXPECT_EQ(Text(R"({"tokens": [256, 400]})"), R"({"prompt":"he<|end|>"})");
  EXPECT_EQ(Text(R"({"tokens": []})"), R"({"prompt":""})");
  EXPECT_EQ(Text(R"({"tokens": [402]})"), "tokens");
  EXPECT_EQ(Text(R"({"tokens": ["a"]})"), "tokens");
  EXPECT_EQ(Text(R"({"tokens": "a"})"), "tokens");
}

TEST(EmbeddingRequest, TakesTextsAndIds) {
  // The official client sends base64 and lists; retrieval tools send ids.
  const TinyModel model;
  const auto parse = [&](const std::string& body) { return ParseEmbedding(RequestOf(body), model.card); };
  const auto both = parse(R"({"model": "tiny", "input": ["he", "x<|end|>"], "encoding_format": "base64", "dimensions": 32})");
  ASSERT_TRUE(both.ok()) << both.error().message;
  EXPECT_TRUE(both->base64);
  ASSERT_EQ(both->inputs.size(), 2u);
  EXPECT_EQ(both->inputs[0], (std::vector<TokenId>{256}));
  EXPECT_EQ(both->inputs[1].size(), 8u);  // documents are text, whatever they look like
  EXPECT_EQ(parse(R"({"input": [256, 1]})")->inputs.front(), (std::vector<TokenId>{256, 1}));
  EXPECT_FALSE(parse(R"({"input": "x", "encoding_format": "float"})")->base64);
  EXPECT_EQ(RefusedField(parse(R"({"input": "x", "encoding_format": "int8"})")), "encoding_format");
  EXPECT_EQ(RefusedField(parse(R"({"input": "x", "dimensions": 16})")), "dimensions");
  EXPECT_EQ(RefusedField(parse(R"({"input": ""})")), "input");
  EXPECT_EQ(RefusedField(parse(R"({"input": []})")), "input");
  EXPECT_EQ(RefusedField(parse("{\"input\": \"" + std::string(65, 'x') + "\"}")), "input");
  EXPECT_EQ(RefusedField(parse("{\"input\": \"" + std::string(64, 'x') + "\"}")), "ok");
  EXPECT_EQ(RefusedField(parse(R"({"model": "other", "input": "x"})")), "404 model");
}

}  // namespace
}  // namespace skein::server
