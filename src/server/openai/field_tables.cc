// SPDX-License-Identifier: Apache-2.0
#include "server/openai/field_tables.h"

#include <array>
#include <limits>

namespace skein::server {
namespace {

constexpr std::uint64_t kInt32Max = std::numeric_limits<std::int32_t>::max();
constexpr std::string_view kNotYet = "is not available yet";
constexpr std::string_view kElsewhere = "belongs to models of another kind";

using Rows = std::vector<FieldSpec>;

void Append(Rows& rows, Rows more) { rows.insert(rows.end(), more.begin(), more.end()); }

FieldSpec Model() { return Sized("model", kText, 512, "the model's name, as GET /v1/models lists it; left out: the one served"); }

// How tokens are chosen and when an answer ends: the same for chat and completions.
Rows SamplingRows() {
  return {
      Number("temperature", 0, 2, "1", "0 always takes the likeliest token; so does anything below 0.00001"),
      Number("top_p", 0, 1, "1", "only the likeliest tokens that together reach this probability"),
      Integer("top_k", -1, 1'000'000, "0", "only this many of the likeliest tokens; 0 and -1: all"),
      Number("min_p", 0, 1, "0", "only tokens at least this many times as likely as the likeliest"),
      Number("presence_penalty", -2, 2, "0", "subtracted from the logits of tokens generated before"),
      Number("frequency_penalty", -2, 2, "0", "subtracted once for every time that a token was generated before"),
      Number("repetition_penalty", 0.01, 100, "1", "above 1: tokens of the prompt and the answer become less likely"),
      Sized("logit_bias", kObject, kBiasesMax,
            "token ids as decimal text, with numbers from -100 to 100 that are added to their logits"),
      Integer("seed", std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::uint64_t>::max(), "",
              "the same seed gives the same answer, whoever else is served beside it; without one each answer has its own"),
      Integer("n", 1, 128, "1", "choices for each prompt; prompts × n is at most 256"),
      Integer("min_tokens", 0, kInt32Max, "0", "the answer does not end of itself before"),
      Sized("stop", kText | kList, kStopsMax, "texts of at most 1024 bytes that end the answer; they are not part of it"),
      Flag("include_stop_str_in_output", "false", "the text that ended the answer is part of it"),
      Sized("stop_token_ids", kList, kStopTokensMax, "tokens that end the answer, beside the model's own"),
      Flag("ignore_eos", "false", "goes on after the model's own end of an answer"),
      Flag("skip_special_tokens", "true", "special tokens are left out of the text"),
  };
}

// How the answer is delivered and in which order requests are served.
Rows DeliveryRows() {
  return {
      Flag("stream", "false", "the answer comes in pieces, as server-sent events"),
      Sized("stream_options", kObject, 8,
            "with stream: include_usage adds a last chunk with the usage, continuous_usage_stats puts it in every chunk"),
      Integer("prompt_logprobs", 0, 20, "",
              "log-probabilities of the prompt's tokens, with this many alternatives each"),
      Flag("return_token_ids", "false", "the answer names its token ids and the prompt's"),
      Sized("cache_salt", kText, 256, "prompts share computed prefixes only with those of the same salt"),
      Integer("priority", -static_cast<std::int64_t>(kInt32Max), kInt32Max, "0",
              "with --policy priority: lower numbers are served first, as in vLLM"),
      Number("timeout", 0.001, 86400, "",
             "seconds from arrival after which the request is given up; the header X-Request-Timeout says the same"),
      Sized("user", kText, 512, "whoever the answer is for; has no effect"),
  };
}

Rows RefusedRows() {
  return {
      Refused("structured_outputs", kNotYet),
      Refused("guided_json", kNotYet),
      Refused("guided_regex", kNotYet),
      Refused("guided_choice", kNotYet),
      Refused("guided_grammar", kNotYet),
      Refused("guided_decoding_backend", kNotYet),
      Refused("guided_whitespace_pattern", kNotYet),
      Refused("structural_tag", kNotYet),
      Refused("grammar", kNotYet),
      Refused("json_schema", kNotYet),
      Refused("response_format", "other than {\"type\": \"text\"} is not available yet", R"([{"type":"text"}])"),
      Refused("allowed_token_ids", kNotYet),
      Refused("bad_words", kNotYet, "[[]]"),
      Refused("truncate_prompt_tokens", "is not available: a prompt is answered whole or refused"),
      Refused("use_beam_search", "is not available: answers are sampled", "[false]"),
      Refused("length_penalty", "is not available: it belongs to beam search", "[1, 1.0]"),
      Refused("early_stopping", "is not available: it belongs to beam search", "[false]"),
      Refused("logits_processors", "is not available: no code of a request is run", "[[]]"),
      Refused("return_tokens_as_token_ids", "is not available; return_token_ids gives the ids", "[false]"),
      Refused("kv_transfer_params", kNotYet),
      Refused("vllm_xargs", kNotYet, "[{}]"),
  };
}

Rows IgnoredRows() {
  return {
      Ignored("spaces_between_special_tokens", kBoolean, "text is decoded as the tokenizer's file says"),
      Ignored("request_id", kText, "the header X-Request-Id names a request"),
      Ignored("store", kBoolean, "nothing is stored"),
      Ignored("metadata", kObject, "goes with stored answers, and nothing is stored"),
      Ignored("service_tier", kText, "there is one"),
      Ignored("safety_identifier", kText, "for the operator of a public service"),
      Ignored("prompt_cache_key", kText, "prefixes are found by their tokens"),
      Ignored("prompt_cache_retention", kText, "prefixes are kept while there is room"),
      Ignored("prediction", kObject, "a hint for speed"),
      Ignored("cache_prompt", kBoolean, "prefixes are always reused where that gives the same answer"),
  };
}

Rows TemplateRows() {
  return {
      Flag("add_generation_prompt", "true", "the prompt ends where an answer begins; false with continue_final_message"),
      Flag("continue_final_message", "false", "the answer continues the last message instead of following it"),
      Sized("chat_template_kwargs", kObject, 64, "variables for the model's template, such as enable_thinking"),
      Refused("chat_template", "is not taken from requests: the model's own is used"),
  };
}

FieldTable MakeChat() {
  FieldTable table{.route = "POST /v1/chat/completions", .about = "Answers a conversation.", .fields = {}};
  Rows& rows = table.fields;
  Append(rows, {
      Model(),
      Required(Sized("messages", kList, kMessagesMax,
                     "objects with a role (system, developer, user, assistant, tool, function) and content: text, or a "
                     "list of parts of type text, which are joined by line ends")),
      Integer("max_completion_tokens", 1, kInt32Max, "what the context leaves", "tokens of the answer, at most"),
      Integer("max_tokens", 1, kInt32Max, "what the context leaves", "the older name of max_completion_tokens, which wins"),
  });
  Append(rows, SamplingRows());
  Append(rows, {
      Flag("logprobs", "false", "every token comes with its log-probability"),
      Integer("top_logprobs", 0, 20, "0", "with logprobs: this many of the likeliest tokens beside each"),
  });
  Append(rows, DeliveryRows());
  Append(rows, TemplateRows());
  Append(rows, {
      Flag("add_special_tokens", "false", "the tokenizer adds its begin token to what the template wrote"),
      Sized("documents", kList, kDocumentsMax, "objects for templates that know documents"),
      Sized("reasoning_effort", kText, 64, "a variable for the model's template, under this name"),
      Refused("tools", kNotYet, "[[]]"),
      Refused("tool_choice", "is not available yet, since tools are not", R"(["none", "auto"])"),
      Refused("functions", kNotYet, "[[]]"),
      Refused("function_call", "is not available yet, since tools are not", R"(["none", "auto"])"),
      Refused("echo", "is not available here; /v1/completions has it", "[false]"),
      Refused("modalities", "other than [\"text\"] is not available", R"([["text"]])"),
      Refused("audio", kElsewhere),
      Refused("web_search_options", "is not available: nothing is looked up"),
      Refused("moderation", "is not available: nothing is moderated"),
      Refused("mm_processor_kwargs", kElsewhere, "[{}]"),
      Refused("include_reasoning", "false is not available; the answer has reasoning apart", "[true]"),
  });
  Append(rows, RefusedRows());
  Append(rows, {
      Ignored("parallel_tool_calls", kBoolean, "goes with tools"),
      Ignored("verbosity", kText, "a wish to models that were trained for it"),
  });
  Append(rows, IgnoredRows());
  return table;
}

FieldTable MakeCompletion() {
  FieldTable table{.route = "POST /v1/completions", .about = "Continues a text.", .fields = {}};
  Rows& rows = table.fields;
  Append(rows, {
      Model(),
      Required(Sized("prompt", kText | kList, 0,
                     "text, a list of token ids, or a list of at most 256 of either; special tokens written in text are "
                     "taken as such")),
      Integer("max_tokens", 0, kInt32Max, "16", "tokens of the answer, at most; 0 only with echo"),
      Integer("max_completion_tokens", 0, kInt32Max, "", "another name of max_tokens, which wins"),
  });
  Append(rows, SamplingRows());
  Append(rows, {
      Integer("logprobs", 0, 20, "", "log-probabilities, with this many of the likeliest tokens beside each"),
      Flag("echo", "false", "the answer begins with the prompt; with logprobs the prompt's are in it"),
      Integer("best_of", 1, 128, "n", "the same as n: there is no choice among more answers than are given"),
      Flag("add_special_tokens", "true", "text begins with the model's begin token, where it wants one"),
      Refused("suffix", "is not available: the model continues text, it does not fill it in", R"([""])"),
  });
  Append(rows, DeliveryRows());
  Append(rows, RefusedRows());
  Append(rows, IgnoredRows());
  return table;
}

FieldTable MakeEmbedding() {
  return {.route = "POST /v1/embeddings",
          .about = "Turns texts into vectors.",
          .fields = {
              Model(),
              Required(Sized("input", kText | kList, 0, "text, a list of token ids, or a list of at most 256 of either")),
              Sized("encoding_format", kText, 16, "float (the default): a list of numbers; base64: their bytes"),
              Integer("dimensions", 1, 1'000'000, "the model's", "only the model's own number"),
              Flag("add_special_tokens", "true", "text begins with the model's begin token, where it wants one"),
              Sized("user", kText, 512, "whoever the answer is for; has no effect"),
              Refused("truncate_prompt_tokens", "is not available: a text is read whole or refused"),
              Ignored("priority", kInteger, "embeddings are made in order of arrival"),
              Ignored("request_id", kText, "the header X-Request-Id names a request"),
          }};
}

FieldTable MakeTokenize() {
  FieldTable table{.route = "POST /tokenize", .about = "Turns text or a conversation into token ids.", .fields = {}};
  Append(table.fields, {
      Model(),
      Sized("prompt", kText, kTokenizeBytesMax, "the text; special tokens written in it are taken as such"),
      Sized("content", kText, kTokenizeBytesMax, "another name of prompt"),
      Sized("messages", kList, kMessagesMax, "a conversation instead of a text, as /v1/chat/completions takes it"),
      Flag("add_special_tokens", "true", "adds the model's begin token, where it wants one; of a conversation: false"),
      Flag("return_token_strs", "false", "the answer has token_strs, the text of each token"),
  });
  Append(table.fields, TemplateRows());
  Append(table.fields, {Refused("tools", kNotYet, "[[]]")});
  return table;
}

FieldTable MakeDetokenize() {
  return {.route = "POST /detokenize",
          .about = "Turns token ids into text, special tokens included.",
          .fields = {
              Model(),
              Required(Sized("tokens", kList, kDetokenizeMax, "token ids")),
          }};
}

}  // namespace

const FieldTable& ChatFields() {
  static const FieldTable table = MakeChat();
  return table;
}

const FieldTable& CompletionFields() {
  static const FieldTable table = MakeCompletion();
  return table;
}

const FieldTable& EmbeddingFields() {
  static const FieldTable table = MakeEmbedding();
  return table;
}

const FieldTable& TokenizeFields() {
  static const FieldTable table = MakeTokenize();
  return table;
}

const FieldTable& DetokenizeFields() {
  static const FieldTable table = MakeDetokenize();
  return table;
}

std::span<const FieldTable* const> AllFieldTables() {
  static const std::array<const FieldTable*, 5> tables = {&ChatFields(), &CompletionFields(), &EmbeddingFields(),
                                                          &TokenizeFields(), &DetokenizeFields()};
  return tables;
}

}  // namespace skein::server
