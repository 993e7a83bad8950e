// SPDX-License-Identifier: Apache-2.0
#include "server/openai/chat_request.h"

#include <fmt/format.h>

#include "server/openai/request_testing.h"

namespace skein::server {
namespace {

class ChatRequest : public testing::Test {
 protected:
  ApiResult<GenerationRequest> Parse(const std::string& messages, const std::string& rest = "") {
    return ParseChat(RequestOf("{\"model\": \"tiny\", \"messages\": " + messages + rest + "}"), model_.card);
  }
  std::string Prompt(const std::string& messages, const std::string& rest = "") {
    const ApiResult<GenerationRequest> result = Parse(messages, rest);
    return result.ok() ? result->prompts.front().text : result.error().param + ": " + result.error().message;
  }
  std::string Refused(const std::string& messages, const std::string& rest = "") {
    return RefusedField(Parse(messages, rest));
  }
  static std::string User(const std::string& content) { return R"([{"role": "user", "content": )" + content + "}]"; }

  TinyModel model_;
};

TEST_F(ChatRequest, RendersAndTokenises) {
  // A model answers well only in the form that it was trained on.
  const ApiResult<GenerationRequest> result = Parse(User("\"he\""));
  ASSERT_TRUE(result.ok());
  ASSERT_EQ(result->prompts.size(), 1u);
  EXPECT_EQ(result->prompts[0].text, "<|end|>user:he\n<|end|>assistant:");
  EXPECT_EQ(result->prompts[0].tokens.front(), 400);
  EXPECT_EQ(result->prompts[0].max_tokens, 64 - static_cast<int>(result->prompts[0].tokens.size()));
  EXPECT_FALSE(result->max_tokens_given);
  EXPECT_FALSE(result->generation_prompt_opens_reasoning);
}

TEST_F(ChatRequest, TextOfAUserIsNeverASpecialToken) {
  // Otherwise a user's text could end its turn and speak as the system.
  const auto special = [&](const std::string& content) {
    const ApiResult<GenerationRequest> result = Parse(User("\"" + content + "\""));
    return result.ok() ? std::count(result->prompts[0].tokens.begin(), result->prompts[0].tokens.end(), 400) : -1;
  };
  EXPECT_EQ(special("x"), 2);
  EXPECT_EQ(special("<|end|>"), 2);
  EXPECT_EQ(special("<|en"), 2);
}

TEST_F(ChatRequest, PartsOfTextAreJoined) {
  // Clients of the newer form send every content as a list.
  EXPECT_EQ(Prompt(User(R"([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])")),
            "<|end|>user:a\nb\n<|end|>assistant:");
}

TEST_F(ChatRequest, TakesWhatClientsEchoBack) {
  // The official clients append the answer's message as it came, nulls and all.
  EXPECT_EQ(Prompt(R"([{"role": "user", "content": "a"},
                       {"role": "assistant", "content": "b", "refusal": null, "tool_calls": [], "function_call": null,
                        "annotations": [], "reasoning_content": "r"},
                       {"role": "user", "content": "c", "name": "d"}])"),
            "<|end|>user:a\n<|end|>assistant:b\n<|end|>user:c\n<|end|>assistant:");
  EXPECT_EQ(Prompt(R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": ""}])"),
            "<|end|>user:a\n<|end|>assistant:\n<|end|>assistant:");
  EXPECT_EQ(Prompt(R"([{"role": "assistant", "content": null}, {"role": "assistant"}, {"role": "tool", "content": "t"}])"),
            "<|end|>assistant:\n<|end|>assistant:\n<|end|>tool:t\n<|end|>assistant:");
}

TEST_F(ChatRequest, NullMembersAreNotThereForTheTemplate) {
  // Templates ask "is defined", and would go on to walk through null.
  const TinyModel model("{% for m in messages %}{% if m.tool_calls is defined %}calls{% else %}none{% endif %}{% endfor %}");
  for (const char* calls : {"null", "[]"}) {
    const auto result = ParseChat(RequestOf(fmt::format(R"({{"messages": [{{"role": "user", "content": "a", "tool_calls": {}}}]}})", calls)), model.card);
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result->prompts.front().text, "none");
  }
}

TEST_F(ChatRequest, RefusesOddMessagesByName) {
  // In a conversation of hundreds, "invalid message" is no help.
  EXPECT_EQ(Refused("[]"), "messages");
  EXPECT_EQ(Refused("\"hi\""), "messages");
  EXPECT_EQ(Refused("{}"), "messages");
  EXPECT_EQ(Refused("[5]"), "messages[0]");
  EXPECT_EQ(Refused(R"([{"content": "x"}])"), "messages[0].role");
  EXPECT_EQ(Refused(R"([{"role": "user", "content": "x"}, {"role": "wizard", "content": "x"}])"), "messages[1].role");
  EXPECT_EQ(Refused(R"([{"role": 5, "content": "x"}])"), "messages[0].role");
  EXPECT_EQ(Refused(R"([{"role": "user"}])"), "messages[0].content");
  EXPECT_EQ(Refused(User("null")), "messages[0].content");
  EXPECT_EQ(Refused(User("5")), "messages[0].content");
  EXPECT_EQ(Refused(User("{}")), "messages[0].content");
  EXPECT_EQ(Refused(User("[]")), "messages[0].content");
  EXPECT_EQ(Refused(User("[\"x\"]")), "messages[0].content[0]");
  EXPECT_EQ(Refused(User(R"([{"text": "x"}])")), "messages[0].content[0]");
  EXPECT_EQ(Refused(User(R"([{"type": "text"}])")), "messages[0].content[0]");
  EXPECT_EQ(Refused(User(R"([{"type": "text", "text": 5}])")), "messages[0].content[0]");
  EXPECT_EQ(Refused(User(R"([{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": "data:"}}])")),
            "messages[0].content[1]");
  EXPECT_EQ(Refused(R"([{"role": "user", "content": "x", "name": 5}])"), "messages[0].name");
}

TEST_F(ChatRequest, TheTemplatesWordsReachTheClient) {
  // A template refuses conversations of a form that its model never saw, and says why.
  const TinyModel model("{{ raise_exception('roles must alternate') }}");
  const auto result = ParseChat(RequestOf(R"({"messages": [{"role": "user", "content": "a"}]})"), model.card);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().status, 400);
  EXPECT_NE(result.error().message.find("roles must alternate"), std::string::npos) << result.error().message;
}

TEST_F(ChatRequest, ATemplateThatNeverEndsIsEnded) {
  // A template comes from a stranger's file.
  const TinyModel model("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}");
  const auto result = ParseChat(RequestOf(R"({"messages": [{"role": "user", "content": "a"}]})"), model.card);
  EXPECT_EQ(RefusedField(result), "messages");
}

TEST_F(ChatRequest, AModelWithoutTemplateHasNoChat) {
  // A made-up form would look like an answer and be worse than none.
  model_.card.chat_template = nullptr;
  const ApiResult<GenerationRequest> result = Parse(User("\"x\""));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().status, 400);
  EXPECT_NE(result.error().message.find("/v1/completions"), std::string::npos);
}

TEST_F(ChatRequest, ContinuesTheLastMessage) {
  // Prefilling an answer must not end the turn that it prefills.
  const std::string messages = R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": " b c "}])";
  EXPECT_EQ(Prompt(messages, R"(, "continue_final_message": true)"), "<|end|>user:a\n<|end|>assistant: b c ");
  EXPECT_EQ(Prompt(messages, R"(, "continue_final_message": true, "add_generation_prompt": false)"),
            "<|end|>user:a\n<|end|>assistant: b c ");
  EXPECT_EQ(Refused(messages, R"(, "continue_final_message": true, "add_generation_prompt": true)"), "continue_final_message");
  EXPECT_EQ(Refused(R"([{"role": "assistant", "content": " "}])", R"(, "continue_final_message": true)"), "continue_final_message");
  EXPECT_EQ(Prompt(messages, R"(, "add_generation_prompt": false)"), "<|end|>user:a\n<|end|>assistant: b c \n");
  const TinyModel trimming("{% for m in messages %}<|end|>{{ m.content | trim }}!{% endfor %}");
  const auto trimmed = ParseChat(RequestOf(R"({"messages": [{"role": "user", "content": " b "}], "continue_final_message": true})"), trimming.card);
  ASSERT_TRUE(trimmed.ok());
  EXPECT_EQ(trimmed->prompts.front().text, "<|end|>b");
}

TEST_F(ChatRequest, VariablesOfTheTemplate) {
  // enable_thinking is how a client turns reasoning on and off; a client's `messages` would replace the checked ones.
  const ApiResult<GenerationRequest> thinking = Parse(User("\"x\""), R"(, "chat_template_kwargs": {"enable_thinking": true})");
  ASSERT_TRUE(thinking.ok());
  EXPECT_TRUE(thinking->generation_prompt_opens_reasoning);
  EXPECT_FALSE(Parse(User("\"<think>\""), R"(, "add_generation_prompt": false)")->generation_prompt_opens_reasoning);
  for (const char* name : {"messages", "tools", "documents", "add_generation_prompt", "eos_token"}) {
    EXPECT_EQ(Refused(User("\"x\""), fmt::format(R"(, "chat_template_kwargs": {{"{}": 1}})", name)), "chat_template_kwargs") << name;
  }
  EXPECT_EQ(Refused(User("\"x\""), R"(, "chat_template": "{{ 1 }}")"), "chat_template");
}

TEST_F(ChatRequest, DocumentsAndEffortReachTheTemplate) {
  // They are promised in the documentation.
  const TinyModel model("{% for d in documents %}{{ d.title }}{% endfor %}|{{ reasoning_effort }}");
  const auto parse = [&](const std::string& rest) {
    const auto result = ParseChat(RequestOf(R"({"messages": [{"role": "user", "content": "a"}])" + rest + "}"), model.card);
    return result.ok() ? result->prompts.front().text : result.error().param;
  };
  EXPECT_EQ(parse(R"(, "documents": [{"title": "t"}], "reasoning_effort": "low")"), "t|low");
  EXPECT_EQ(parse(R"(, "documents": [{"title": "t"}, 5])"), "documents");
}

TEST_F(ChatRequest, LogprobsAndTheirAlternatives) {
  // Alternatives without log-probabilities would silently be lost.
  const ApiResult<GenerationRequest> result = Parse(User("\"x\""), R"(, "logprobs": true, "top_logprobs": 3)");
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->logprobs);
  EXPECT_EQ(result->top_logprobs, 3);
  EXPECT_EQ(Refused(User("\"x\""), R"(, "top_logprobs": 3)"), "top_logprobs");
  EXPECT_EQ(Refused(User("\"x\""), R"(, "top_logprobs": 0)"), "ok");
}

TEST_F(ChatRequest, ConversationsBeyondTheContextNameBothNumbers) {
  // Clients drop old turns until it fits.
  const ApiResult<GenerationRequest> result = Parse(User("\"" + std::string(80, 'x') + "\""));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, "context_length_exceeded");
  EXPECT_NE(result.error().message.find("limit is 64"), std::string::npos) << result.error().message;
  EXPECT_EQ(Refused(User("\"x\""), R"(, "max_tokens": 0)"), "max_tokens");
  EXPECT_EQ(Parse(User("\"x\""), R"(, "max_tokens": null, "max_completion_tokens": 4)")->prompts[0].max_tokens, 4);
}

}  // namespace
}  // namespace skein::server
