// SPDX-License-Identifier: Apache-2.0
#include "server/openai/fields.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>

#include "server/openai/chat_request.h"
#include "server/openai/completion_request.h"
#include "server/openai/embedding_request.h"
#include "server/openai/field_tables.h"
#include "server/openai/request_testing.h"
#include "server/openai/tokenize_request.h"

namespace skein::server {
namespace {

// An endpoint, and a body that it takes. Fields of the body may be replaced.
struct Endpoint {
  const FieldTable* table;
  std::vector<std::pair<std::string, std::string>> body;  // names and JSON
  std::function<std::string(const std::string&)> refused;  // as RefusedField
};

class FieldMatrix : public testing::Test {
 protected:
  std::vector<Endpoint> Endpoints() {
    const ModelCard& card = model_.card;
    return {
        {&ChatFields(),
         {{"messages", R"([{"role":"user","content":"hi"}])"}, {"logprobs", "true"}, {"stream", "true"}},
         [&](const std::string& body) { return RefusedField(ParseChat(RequestOf(body), card)); }},
        {&CompletionFields(),
         {{"prompt", "\"hi\""}, {"echo", "true"}, {"stream", "true"}},
         [&](const std::string& body) { return RefusedField(ParseCompletion(RequestOf(body), card)); }},
        {&EmbeddingFields(), {{"input", "\"hi\""}},
         [&](const std::string& body) { return RefusedField(ParseEmbedding(RequestOf(body), card)); }},
        {&TokenizeFields(), {{"prompt", "\"hi\""}},
         [&](const std::string& body) { return RefusedField(Tokenize(RequestOf(body), card)); }},
        {&DetokenizeFields(), {{"tokens", "[1]"}},
         [&](const std::string& body) { return RefusedField(Detokenize(RequestOf(body), card)); }},
    };
  }

  // The endpoint's body with one field replaced, and whatever this value of it needs beside it.
  static std::string BodyWith(const Endpoint& endpoint, std::string_view field, std::string_view value) {
    auto body = endpoint.body;
    const auto set = [&](std::string_view name, std::string_view json) {
      for (auto& member : body) {
        if (member.first == name) return void(member.second = json);
      }
      body.emplace_back(name, json);
    };
    if (field == "min_tokens") set("max_tokens", "2147483647");
    if (field == "best_of") set("n", "128");
    set(field, value);
    std::string json;
    for (const auto& [name, text] : body) json += fmt::format("{}\"{}\": {}", json.empty() ? "" : ", ", name, text);
    return "{" + json + "}";
  }

  static bool IsNumeric(const FieldSpec& spec) {
    return spec.use == FieldUse::kDone && (spec.types & (kInteger | kNumber)) != 0;
  }

  TinyModel model_;
};

// Numbers as clients write them, with what they are worth; long double holds all that a field may be exactly.
struct Spelling {
  std::string json;
  long double worth;
};

std::vector<Spelling> NumbersFor(const FieldSpec& spec) {
  std::vector<Spelling> numbers = {
      {"-1", -1},
      {"-2147483648", -2147483648.0L},
      {"2147483648", 2147483648.0L},
      {"9223372036854775808", 9223372036854775808.0L},
      {"1e308", 1e308L},
      {"-1e308", -1e308L},
      {"1.5", 1.5L},
      {"0.5", 0.5L},
      {"0", 0},
      {"-0", 0},
      {"0.0", 0},
      {"1e0", 1},
      {"5e-324", 5e-324L},
  };
  if ((spec.types & kInteger) != 0) {
    const auto low = static_cast<long double>(spec.integer_min);
    const auto high = static_cast<long double>(spec.integer_max);
    for (const long double worth : {low - 1, low, high, high + 1}) numbers.push_back({fmt::format("{:.0f}", worth), worth});
  } else {
    numbers.push_back({fmt::format("{}", spec.number_min), spec.number_min});
    numbers.push_back({fmt::format("{}", spec.number_max), spec.number_max});
    // Steps that no rounding of decimals hides.
    for (const double worth : {spec.number_min - 0.0001, spec.number_max + 0.0001}) numbers.push_back({fmt::format("{}", worth), worth});
  }
  return numbers;
}

bool IsAllowed(const FieldSpec& spec, long double worth) {
  if ((spec.types & kInteger) == 0) return worth >= spec.number_min && worth <= spec.number_max;
  return worth == std::trunc(worth) && worth >= static_cast<long double>(spec.integer_min) &&
         worth <= static_cast<long double>(spec.integer_max);
}

TEST_F(FieldMatrix, EveryNumericFieldKeepsToItsRange) {
  // A number outside of its declared range would reach the sampler or the scheduler, where it means anything.
  int tried = 0;
  for (const Endpoint& endpoint : Endpoints()) {
    for (const FieldSpec& spec : endpoint.table->fields) {
      if (!IsNumeric(spec)) continue;
      for (const Spelling& number : NumbersFor(spec)) {
        bool allowed = IsAllowed(spec, number.worth);
        // Two whose only value comes from elsewhere.
        if (spec.name == "best_of") allowed = number.worth == 128;
        if (spec.name == "dimensions") allowed = number.worth == 32;
        EXPECT_EQ(endpoint.refused(BodyWith(endpoint, spec.name, number.json)), allowed ? "ok" : std::string(spec.name))
            << endpoint.table->route << ": " << spec.name << " = " << number.json;
        ++tried;
      }
    }
  }
  EXPECT_GT(tried, 400);  // the tables have not lost their rows
}

TEST_F(FieldMatrix, NumericFieldsTakeNoOtherType) {
  // "1" or true taken as a number hides a client's mistake until the answer is strange.
  for (const Endpoint& endpoint : Endpoints()) {
    for (const FieldSpec& spec : endpoint.table->fields) {
      if (!IsNumeric(spec)) continue;
      for (const std::string_view json : {"\"1\"", "\"NaN\"", "\"\"", "true", "false", "[]", "{}", "[1]", R"({"a": 1})"}) {
        EXPECT_EQ(endpoint.refused(BodyWith(endpoint, spec.name, json)), spec.name)
            << endpoint.table->route << ": " << spec.name << " = " << json;
      }
    }
  }
}

TEST_F(FieldMatrix, NullIsAsGoodAsAbsent) {
  // The official clients send null for what their caller left out.
  for (const Endpoint& endpoint : Endpoints()) {
    for (const FieldSpec& spec : endpoint.table->fields) {
      if (spec.required || spec.name == endpoint.body.front().first) continue;
      std::string_view other = spec.name == "stream" ? "stream_options" : spec.name;
      EXPECT_EQ(endpoint.refused(BodyWith(endpoint, other, "null")), "ok") << endpoint.table->route << ": " << spec.name;
    }
  }
}

TEST_F(FieldMatrix, RequiredFieldsAreAskedForByName) {
  // A client that forgot the prompt should not have to guess what is wrong.
  for (const Endpoint& endpoint : Endpoints()) {
    for (const FieldSpec& spec : endpoint.table->fields) {
      if (!spec.required) continue;
      EXPECT_EQ(endpoint.refused("{}"), spec.name);
      EXPECT_EQ(endpoint.refused(BodyWith(endpoint, spec.name, "null")), spec.name);
    }
  }
}

TEST_F(FieldMatrix, FieldsOfOtherTypesRefuseWrongOnes) {
  // A flag given as "false" must not count as true.
  struct Value {
    std::uint8_t type;
    std::string_view json;
  };
  const std::vector<Value> values = {
      {kBoolean, "true"}, {kNumber | kInteger, "1"}, {kText, "\"x\""}, {kList, "[{}]"}, {kObject, "{}"}};
  for (const Endpoint& endpoint : Endpoints()) {
    for (const FieldSpec& spec : endpoint.table->fields) {
      if (spec.use == FieldUse::kRefused) continue;
      for (const Value& value : values) {
        if ((spec.types & value.type) != 0) continue;
        EXPECT_EQ(endpoint.refused(BodyWith(endpoint, spec.name, value.json)), spec.name)
            << endpoint.table->route << ": " << spec.name << " = " << value.json;
      }
    }
  }
}

TEST_F(FieldMatrix, CapsHoldBeforeAnythingIsCopied) {
  // A text, list or object without a cap is memory that a stranger chooses.
  for (const Endpoint& endpoint : Endpoints()) {
    for (const FieldSpec& spec : endpoint.table->fields) {
      if (spec.use != FieldUse::kDone || spec.size_max == 0) continue;
      std::string large;
      if ((spec.types & kList) != 0) {
        for (std::size_t i = 0; i <= spec.size_max; ++i) large += i == 0 ? "[1" : ",1";
        large += "]";
      } else if ((spec.types & kObject) != 0) {
        for (std::size_t i = 0; i <= spec.size_max; ++i) large += fmt::format("{}\"{}\":1", i == 0 ? "{" : ",", i);
        large += "}";
      } else {
        large = "\"" + std::string(spec.size_max + 1, 'x') + "\"";
      }
      EXPECT_EQ(endpoint.refused(BodyWith(endpoint, spec.name, large)), spec.name)
          << endpoint.table->route << ": " << spec.name;
    }
  }
}

TEST_F(FieldMatrix, RefusedFieldsAreRefusedAndTheirHarmlessValuesAreNot) {
  // Ignoring response_format would give prose to a program that parses JSON; refusing tool_choice "none" would turn
  // away clients that always send it.
  int refused = 0;
  for (const Endpoint& endpoint : Endpoints()) {
    for (const FieldSpec& spec : endpoint.table->fields) {
      if (spec.use != FieldUse::kRefused) continue;
      ++refused;
      EXPECT_EQ(endpoint.refused(BodyWith(endpoint, spec.name, R"({"type": "json_object"})")), spec.name);
      if (spec.harmless.empty()) continue;
      const std::string_view values = spec.harmless.substr(1, spec.harmless.size() - 2);
      const std::string_view first = spec.name == "tool_choice" || spec.name == "function_call" ? "\"none\""
                                     : spec.name == "length_penalty"                            ? "1.0"
                                                                                                : values;
      EXPECT_EQ(endpoint.refused(BodyWith(endpoint, spec.name, first)), "ok") << spec.name << " = " << first;
    }
  }
  EXPECT_GT(refused, 30);
}

TEST_F(FieldMatrix, UnknownFieldsAreNamedWithTheNearest) {
  // A misspelt field that is silently ignored changes what the answer means.
  const ApiResult<GenerationRequest> result =
      ParseCompletion(RequestOf(R"({"prompt": "hi", "temprature": 0})"), model_.card);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().param, "temprature");
  EXPECT_NE(result.error().message.find("did you mean temperature?"), std::string::npos) << result.error().message;
  EXPECT_EQ(RefusedField(ParseCompletion(RequestOf(R"({"prompt": "hi", "x_trace": {"a": [1]}})"), model_.card)), "ok");
}

TEST_F(FieldMatrix, MessagesSayWhatWasExpectedAndFound) {
  // "invalid value" sends people to the source.
  const auto message = [&](const std::string& body) {
    const ApiResult<GenerationRequest> result = ParseCompletion(RequestOf(body), model_.card);
    return result.ok() ? std::string("ok") : result.error().message;
  };
  EXPECT_EQ(message(R"({"prompt": "hi", "temperature": "hot"})"), R"(temperature is a number from 0 to 2, found "hot")");
  EXPECT_EQ(message(R"({"prompt": "hi", "n": 0})"), "n is a whole number from 1 to 128, found 0");
  EXPECT_EQ(message(R"({"prompt": "hi", "stream": "yes"})"), R"(stream is true or false, found "yes")");
  EXPECT_EQ(message(R"({"prompt": "hi", "tools": []})"), R"(POST /v1/completions has no field "tools"; leave it out)");
}

TEST(FieldTables, NoFieldTwiceAndNoneWithoutWords) {
  // Of two rows the second would never be read; a row without words documents nothing.
  for (const FieldTable* table : AllFieldTables()) {
    for (const FieldSpec& spec : table->fields) {
      EXPECT_EQ(table->Find(spec.name), &spec) << table->route << ": " << spec.name;
      EXPECT_FALSE(spec.meaning.empty()) << spec.name;
      EXPECT_FALSE(spec.use != FieldUse::kRefused && spec.types == 0) << spec.name;
    }
  }
}

TEST(FieldTables, DocumentationIsWhatTheTablesSay) {
  // docs/api.md would promise fields that are refused.
  const char* source = std::getenv("SKEIN_SOURCE_DIR");
  ASSERT_NE(source, nullptr) << "run by ctest";
  std::ifstream file(std::string(source) + "/docs/api.md");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), ApiReference()) << "write it anew: skein help api > docs/api.md";
}

TEST(WholeNumber, CoversBothSignsOf64Bits) {
  // A seed of 2^64 - 1 that became a double would be another seed.
  const auto bits = [](const boost::json::value& value) {
    const std::optional<WholeNumber> whole = ToWholeNumber(value);
    return whole ? std::optional(whole->bits()) : std::nullopt;
  };
  EXPECT_EQ(bits(std::uint64_t{18446744073709551615u}), 18446744073709551615u);
  EXPECT_EQ(bits(std::int64_t{-1}), 18446744073709551615u);
  EXPECT_EQ(bits(std::numeric_limits<std::int64_t>::min()), 9223372036854775808u);
  EXPECT_EQ(bits(3.0), 3u);
  EXPECT_EQ(bits(-0.0), 0u);
  EXPECT_EQ(bits(3.5), std::nullopt);
  EXPECT_EQ(bits(1e300), std::nullopt);
  EXPECT_EQ(bits(true), std::nullopt);
}

}  // namespace
}  // namespace skein::server
