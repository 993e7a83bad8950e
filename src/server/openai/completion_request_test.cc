// SPDX-License-Identifier: Apache-2.0
#include "server/openai/completion_request.h"

#include <fmt/format.h>

#include "server/openai/field_tables.h"
#include "server/openai/request_testing.h"

namespace skein::server {
namespace {

class CompletionRequest : public testing::Test {
 protected:
  ApiResult<GenerationRequest> Parse(const std::string& members, std::vector<HttpHeader> headers = {}) {
    HttpRequest request = RequestOf("{\"model\": \"tiny\", " + members + "}");
    request.headers = std::move(headers);
    return ParseCompletion(request, model_.card);
  }
  GenerationRequest Must(const std::string& members) {
    ApiResult<GenerationRequest> result = Parse(members);
    if (!result.ok()) {
      ADD_FAILURE() << members << ": " << result.error().message;
      return {};
    }
    return std::move(result).value();
  }
  std::string Refused(const std::string& members) { return RefusedField(Parse(members)); }

  TinyModel model_;
};

TEST_F(CompletionRequest, HasTheDefaultsOfTheApi) {
  // Clients leave fields out and expect what OpenAI documents.
  const GenerationRequest request = Must(R"("prompt": "hey")");
  EXPECT_EQ(request.kind, GenerationRequest::Kind::kCompletion);
  EXPECT_EQ(request.model, "tiny");
  ASSERT_EQ(request.prompts.size(), 1u);
  EXPECT_EQ(request.prompts[0].text, "hey");
  EXPECT_EQ(request.prompts[0].tokens, (std::vector<TokenId>{256, 'y'}));
  EXPECT_EQ(request.prompts[0].max_tokens, 16);
  EXPECT_FALSE(request.max_tokens_given);
  EXPECT_EQ(request.n, 1);
  EXPECT_EQ(request.sampling.temperature, 1.0f);
  EXPECT_EQ(request.sampling.top_p, 1.0f);
  EXPECT_EQ(request.sampling.top_k, 0);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.0f);
  EXPECT_TRUE(request.stop.empty());
  EXPECT_FALSE(request.logprobs || request.echo || request.stream || request.ignore_eos || request.include_usage);
  EXPECT_TRUE(request.skip_special_tokens);
  EXPECT_EQ(request.deadline_ms, 0);
}

TEST_F(CompletionRequest, ReadsEveryField) {
  // A field that is taken and lost is worse than one that is refused.
  const GenerationRequest request = Must(
      R"("prompt": "hey", "temperature": 0.5, "top_p": 0.25, "top_k": 7, "min_p": 0.125, "presence_penalty": -1,
         "frequency_penalty": 1, "repetition_penalty": 1.5, "seed": 7, "logit_bias": {"9": -100, "3": 1.5}, "n": 2,
         "best_of": 2, "max_tokens": 8, "min_tokens": 3, "stop": ["a", "bc"], "include_stop_str_in_output": true,
         "stop_token_ids": [5, 400], "ignore_eos": true, "skip_special_tokens": false, "logprobs": 2, "echo": true,
         "prompt_logprobs": 0, "stream": true, "stream_options": {"include_usage": true, "continuous_usage_stats": true,
         "include_obfuscation": false}, "return_token_ids": true, "cache_salt": "salt", "priority": 3, "user": "u",
         "timeout": 1.5)");
  EXPECT_EQ(request.sampling.temperature, 0.5f);
  EXPECT_EQ(request.sampling.top_p, 0.25f);
  EXPECT_EQ(request.sampling.top_k, 7);
  EXPECT_EQ(request.sampling.min_p, 0.125f);
  EXPECT_EQ(request.sampling.presence_penalty, -1.0f);
  EXPECT_EQ(request.sampling.frequency_penalty, 1.0f);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(request.sampling.seed, 7u);
  EXPECT_EQ(request.sampling.bias, (std::vector<std::pair<TokenId, float>>{{3, 1.5f}, {9, -100.0f}}));
  EXPECT_EQ(request.n, 2);
  EXPECT_EQ(request.best_of, 2);
  EXPECT_EQ(request.prompts[0].max_tokens, 8);
  EXPECT_TRUE(request.max_tokens_given);
  EXPECT_EQ(request.min_tokens, 3);
  EXPECT_EQ(request.stop, (std::vector<std::string>{"a", "bc"}));
  EXPECT_TRUE(request.include_stop_in_output);
  EXPECT_EQ(request.stop_token_ids, (std::vector<TokenId>{5, 400}));
  EXPECT_TRUE(request.ignore_eos);
  EXPECT_FALSE(request.skip_special_tokens);
  EXPECT_TRUE(request.logprobs);
  EXPECT_EQ(request.top_logprobs, 2);
  EXPECT_TRUE(request.echo);
  EXPECT_EQ(request.prompt_logprobs, 0);
  EXPECT_TRUE(request.stream && request.include_usage && request.continuous_usage);
  EXPECT_TRUE(request.return_token_ids);
  EXPECT_EQ(request.cache_salt, "salt");
  EXPECT_EQ(request.priority, -3);  // the API serves lower numbers first, the engine higher ones
  EXPECT_EQ(request.user, "u");
  EXPECT_EQ(request.deadline_ms, 1500);
}

TEST_F(CompletionRequest, TakesPromptsInFourShapes) {
  // Evaluation harnesses send ids, benchmarks lists of text.
  EXPECT_EQ(Must(R"("prompt": [1, 2, 400])").prompts[0].tokens, (std::vector<TokenId>{1, 2, 400}));
  EXPECT_EQ(Must(R"("prompt": [1.0, 2e0])").prompts[0].tokens, (std::vector<TokenId>{1, 2}));
  const GenerationRequest texts = Must(R"("prompt": ["he", "x"])");
  ASSERT_EQ(texts.prompts.size(), 2u);
  EXPECT_EQ(texts.prompts[0].tokens, (std::vector<TokenId>{256}));
  EXPECT_EQ(texts.prompts[1].text, "x");
  const GenerationRequest lists = Must(R"("prompt": [[256], [1, 2]], "echo": true)");
  ASSERT_EQ(lists.prompts.size(), 2u);
  EXPECT_EQ(lists.prompts[0].text, "he");  // what echo gives back
  EXPECT_EQ(lists.prompts[1].tokens, (std::vector<TokenId>{1, 2}));
}

TEST_F(CompletionRequest, SpecialTokensInAPromptAreTokens) {
  // Who writes a whole prompt writes its control tokens too; a chat's messages are another matter.
  EXPECT_EQ(Must(R"("prompt": "<|end|>he")").prompts[0].tokens, (std::vector<TokenId>{400, 256}));
}

TEST_F(CompletionRequest, RefusesOddPrompts) {
  // An id outside of the vocabulary would be read outside of the embedding table.
  EXPECT_EQ(Refused(R"("prompt": "")"), "prompt");
  EXPECT_EQ(Refused(R"("prompt": [])"), "prompt");
  EXPECT_EQ(Refused(R"("prompt": [[]])"), "prompt[0]");
  EXPECT_EQ(Refused(R"("prompt": ["a", ""])"), "prompt[1]");
  EXPECT_EQ(Refused(R"("prompt": 5)"), "prompt");
  EXPECT_EQ(Refused(R"("prompt": {})"), "prompt");
  EXPECT_EQ(Refused(R"("prompt": [true])"), "prompt");
  EXPECT_EQ(Refused(R"("prompt": [null])"), "prompt");
  EXPECT_EQ(Refused(R"("prompt": [1, "two"])"), "prompt");
  EXPECT_EQ(Refused(R"("prompt": ["two", 1])"), "prompt[1]");
  EXPECT_EQ(Refused(R"("prompt": [1.5, 2.5])"), "prompt");
  EXPECT_EQ(Refused(R"("prompt": [-1])"), "prompt");
  EXPECT_EQ(Refused(R"("prompt": [1000000000])"), "prompt");
  EXPECT_EQ(Refused(R"("prompt": [402])"), "prompt");
  EXPECT_EQ(Refused(R"("prompt": [401])"), "ok");
  EXPECT_EQ(Refused(R"("prompt": [[1], "a"])"), "ok");
  EXPECT_EQ(Refused(R"("prompt": [[1], [[2]]])"), "prompt[1]");
  EXPECT_EQ(Refused(R"("prompt": "a", "suffix": "b")"), "suffix");
}

TEST_F(CompletionRequest, PromptsTimesChoicesIsCapped) {
  // One request must not become a hundred thousand.
  std::string many = "[\"x\"";
  for (std::size_t i = 1; i < kPromptsMax; ++i) many += ",\"x\"";
  EXPECT_EQ(Refused("\"prompt\": " + many + "]"), "ok");
  EXPECT_EQ(Refused("\"prompt\": " + many + ",\"x\"]"), "prompt");
  EXPECT_EQ(Refused("\"prompt\": " + many + "], \"n\": 2"), "n");
  EXPECT_EQ(Refused(R"("prompt": ["x", "x"], "n": 128)"), "ok");
  EXPECT_EQ(Refused(R"("prompt": ["x", "x", "x"], "n": 128)"), "n");
}

TEST_F(CompletionRequest, PromptsBeyondTheContextNameBothNumbers) {
  // Clients cut their prompts by these numbers.
  const ApiResult<GenerationRequest> result = Parse("\"prompt\": \"" + std::string(70, 'x') + "\"");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().status, 400);
  EXPECT_EQ(result.error().code, "context_length_exceeded");
  EXPECT_EQ(result.error().param, "prompt");
  EXPECT_NE(result.error().message.find("70 tokens, limit is 64"), std::string::npos) << result.error().message;
  std::string ids = "[1";
  for (int i = 0; i < 99; ++i) ids += ",1";
  EXPECT_EQ(Refused("\"prompt\": " + ids + "]"), "prompt");
}

TEST_F(CompletionRequest, FarTooLongPromptsAreRefusedAfterTheirBeginning) {
  // Tokenising 32 MB in one word takes seconds and a gigabyte, from anybody who can send a request.
  const ApiResult<GenerationRequest> result = Parse("\"prompt\": \"" + std::string(8u << 20, 'x') + "\"");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, "context_length_exceeded");
  EXPECT_NE(result.error().message.find("at least 65280 tokens, limit is 64"), std::string::npos) << result.error().message;
  model_.card.context = 200'000;  // a beginning that fits is followed by the whole
  EXPECT_EQ(Must("\"prompt\": \"" + std::string(199'000, 'x') + "\"").prompts[0].tokens.size(), 199'000u);
}

TEST_F(CompletionRequest, AnswersAreCutToWhatTheContextLeaves) {
  // Prompt and answer together never outgrow the blocks that a sequence may have.
  const auto left = [&](int prompt, const std::string& rest) {
    return Must("\"prompt\": \"" + std::string(static_cast<std::size_t>(prompt), 'x') + "\"" + rest).prompts[0].max_tokens;
  };
  EXPECT_EQ(left(62, ", \"max_tokens\": 50"), 2);
  EXPECT_EQ(left(10, ", \"max_tokens\": 54"), 54);
  EXPECT_EQ(left(10, ", \"max_tokens\": 2147483647"), 54);
  EXPECT_EQ(left(60, ""), 4);
  EXPECT_EQ(left(10, ", \"max_tokens\": 3, \"max_completion_tokens\": 5"), 5);
  EXPECT_EQ(left(10, ", \"max_tokens\": null, \"max_completion_tokens\": 5"), 5);
  EXPECT_EQ(left(64, ", \"max_tokens\": 0, \"echo\": true"), 0);
  EXPECT_EQ(Refused("\"prompt\": \"" + std::string(64, 'x') + "\""), "prompt");
  const GenerationRequest two = Must("\"prompt\": [\"" + std::string(60, 'x') + "\", \"x\"], \"max_tokens\": 9");
  EXPECT_EQ(two.prompts[0].max_tokens, 4);
  EXPECT_EQ(two.prompts[1].max_tokens, 9);
}

TEST_F(CompletionRequest, NoTokensOnlyWithEcho) {
  // Scoring a prompt is the one use of an empty answer.
  EXPECT_EQ(Refused(R"("prompt": "x", "max_tokens": 0)"), "max_tokens");
  EXPECT_EQ(Must(R"("prompt": "x", "max_tokens": 0, "echo": true, "logprobs": 1)").prompts[0].max_tokens, 0);
}

TEST_F(CompletionRequest, SeedsKeepAll64Bits) {
  // A seed is for getting the same answer again.
  EXPECT_EQ(Must(R"("prompt": "x", "seed": 18446744073709551615)").sampling.seed, 18446744073709551615u);
  EXPECT_EQ(Must(R"("prompt": "x", "seed": -9223372036854775808)").sampling.seed, 9223372036854775808u);
  EXPECT_EQ(Must(R"("prompt": "x", "seed": -1)").sampling.seed, 18446744073709551615u);
  EXPECT_EQ(Refused(R"("prompt": "x", "seed": 18446744073709551616)"), "seed");
  EXPECT_EQ(Refused(R"("prompt": "x", "seed": -9223372036854775809)"), "seed");
  EXPECT_NE(Must(R"("prompt": "x")").sampling.seed, Must(R"("prompt": "x")").sampling.seed);
}

TEST_F(CompletionRequest, TinyTemperaturesAreGreedy) {
  // 1e-300 is zero as a float, and 1e-40 divides logits to infinity.
  EXPECT_EQ(Must(R"("prompt": "x", "temperature": 0)").sampling.temperature, 0.0f);
  EXPECT_EQ(Must(R"("prompt": "x", "temperature": 1e-300)").sampling.temperature, 0.0f);
  EXPECT_EQ(Must(R"("prompt": "x", "temperature": 1e-40)").sampling.temperature, 0.0f);
  EXPECT_GT(Must(R"("prompt": "x", "temperature": 0.001)").sampling.temperature, 0.0f);
}

TEST_F(CompletionRequest, BiasesAreForTokensOfTheVocabulary) {
  // A bias is added at an index into the logits.
  EXPECT_EQ(Refused(R"("prompt": "x", "logit_bias": {"401": 1, "0": 100})"), "ok");
  for (const char* bias : {R"({"402": 1})", R"({"-1": 1})", R"({"Paris": 1})", R"({"": 1})", R"({"01": 1})", R"({"1 ": 1})",
                           R"({"1.0": 1})", R"({"99999999999999999999": 1})", R"({"5": 101})", R"({"5": -100.5})",
                           R"({"5": "much"})", R"({"5": null})", R"({"5": true})", "[1, 2]"}) {
    EXPECT_EQ(Refused(fmt::format(R"("prompt": "x", "logit_bias": {})", bias)), "logit_bias") << bias;
  }
}

TEST_F(CompletionRequest, StopsAreTextsOfBoundedNumberAndLength) {
  // Every token of every answer is compared with them.
  EXPECT_EQ(Must(R"("prompt": "x", "stop": "\n\n")").stop, std::vector<std::string>{"\n\n"});
  EXPECT_TRUE(Must(R"("prompt": "x", "stop": [])").stop.empty());
  std::string accents;
  for (int i = 0; i < 100; ++i) accents += "é";
  EXPECT_EQ(Must("\"prompt\": \"x\", \"stop\": \"" + accents + "\"").stop.front(), accents);
  EXPECT_EQ(Refused(R"("prompt": "x", "stop": 5)"), "stop");
  EXPECT_EQ(Refused(R"("prompt": "x", "stop": [1, 2])"), "stop[0]");
  EXPECT_EQ(Refused(R"("prompt": "x", "stop": ["a", ""])"), "stop[1]");
  EXPECT_EQ(Refused("\"prompt\": \"x\", \"stop\": [\"" + std::string(1025, 'x') + "\"]"), "stop[0]");
  EXPECT_EQ(Refused(R"("prompt": "x", "stop_token_ids": [402])"), "stop_token_ids");
  EXPECT_EQ(Refused(R"("prompt": "x", "stop_token_ids": [])"), "ok");
}

TEST_F(CompletionRequest, FieldsThatContradictEachOtherAreRefused) {
  // Whichever won would be the wrong one for somebody.
  EXPECT_EQ(Refused(R"("prompt": "x", "best_of": 3, "n": 2)"), "best_of");
  EXPECT_EQ(Refused(R"("prompt": "x", "min_tokens": 9, "max_tokens": 8)"), "min_tokens");
  EXPECT_EQ(Refused(R"("prompt": "x", "min_tokens": 17)"), "min_tokens");
  EXPECT_EQ(Refused(R"("prompt": "x", "stream_options": {"include_usage": true})"), "stream_options");
  EXPECT_EQ(Refused(R"("prompt": "x", "stream": true, "stream_options": {"include_usage": 1})"), "stream_options");
  EXPECT_EQ(Refused(R"("prompt": "x", "stream": true, "stream_options": {"usage": true})"), "stream_options");
}

TEST_F(CompletionRequest, TheEarlierOfTwoDeadlinesHolds) {
  // A proxy's header must not lengthen what the client asked for.
  const auto deadline = [&](const std::string& field, const std::string& header) {
    const ApiResult<GenerationRequest> result = Parse("\"prompt\": \"x\"" + field, {{"x-request-timeout", header}});
    return result.ok() ? result->deadline_ms : -1;
  };
  EXPECT_EQ(deadline("", "2"), 2000);
  EXPECT_EQ(deadline(", \"timeout\": 1", "2"), 1000);
  EXPECT_EQ(deadline(", \"timeout\": 3", "2.5"), 2500);
  for (const char* header : {"", "soon", "0", "-1", "1e9", "1s", " 1", "nan", "inf"}) EXPECT_EQ(deadline("", header), -1) << header;
}

TEST_F(CompletionRequest, OtherModelsAreNotFound) {
  // A client that asked for another model must not get this one's answer.
  const auto parse = [&](const std::string& body) { return ParseCompletion(RequestOf(body), model_.card); };
  const ApiResult<GenerationRequest> result = parse(R"({"model": "gpt-4", "prompt": "x"})");
  EXPECT_EQ(RefusedField(result), "404 model");
  EXPECT_EQ(result.error().code, "model_not_found");
  EXPECT_EQ(RefusedField(parse(R"({"model": "also-tiny", "prompt": "x"})")), "ok");
  EXPECT_EQ(RefusedField(parse(R"({"model": "", "prompt": "x"})")), "404 model");
  const ApiResult<GenerationRequest> without = parse(R"({"prompt": "x"})");
  ASSERT_TRUE(without.ok());
  EXPECT_EQ(without->model, "tiny");
}

}  // namespace
}  // namespace skein::server
