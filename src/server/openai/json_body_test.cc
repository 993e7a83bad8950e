// SPDX-License-Identifier: Apache-2.0
#include "server/openai/json_body.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

namespace skein::server {
namespace {

std::string RefusedAt(const std::string& body) {
  const ApiResult<boost::json::object> result = ParseJsonBody(body);
  if (result.ok()) return "ok";
  EXPECT_EQ(result.error().status, 400);
  return result.error().param;
}

TEST(JsonBody, TakesAnObjectOnly) {
  // Anything else has no fields to answer by.
  EXPECT_EQ(RefusedAt(R"({"a": 1})"), "ok");
  EXPECT_EQ(RefusedAt(" {} \n"), "ok");
  for (const char* body : {"", " ", "hello", "[]", "[{}]", "\"hi\"", "null", "1", "true", "\xef\xbb\xbf{}"}) {
    EXPECT_EQ(RefusedAt(body), "body") << body;
  }
}

TEST(JsonBody, RefusesWhatTwoProgramsCouldReadDifferently) {
  // A proxy that checks the first of two keys and a server that takes the last are two different requests.
  EXPECT_EQ(RefusedAt(R"({"n": 1, "n": 2})"), "n");
  EXPECT_EQ(RefusedAt(R"({"a": {"b": 1, "c": 2, "b": 3}})"), "a");
  EXPECT_EQ(RefusedAt(R"({"a": 1, "\u0061": 2})"), "a");
  EXPECT_EQ(RefusedAt(R"({"a": [{"b": 1}, {"b": 2}]})"), "ok");
  EXPECT_EQ(RefusedAt(R"({} {})"), "body");
  EXPECT_EQ(RefusedAt("{}x"), "body");
  EXPECT_EQ(RefusedAt(R"({"a": 1,})"), "a");
  EXPECT_EQ(RefusedAt(R"({"a": 1 /* b */})"), "a");
}

TEST(JsonBody, RefusesOddNumbers) {
  // Each of these is a number to some parser and none to another.
  for (const char* number : {"NaN", "Infinity", "-Infinity", "1e400", "-1e400", "01", "-01", "+1", "1.", ".5", "0x10", "1e", "1e+",
                             "--1", "1_000", "1e99999999999999999999"}) {
    EXPECT_EQ(RefusedAt(fmt::format(R"({{"temperature": {}}})", number)), "temperature") << number;
  }
  EXPECT_EQ(RefusedAt(R"({"seed": 1)" + std::string(5000, '0') + "}"), "seed");
  EXPECT_EQ(RefusedAt(R"({"a": -0, "b": 1E3, "c": 1e-400, "d": 18446744073709551616})"), "ok");
}

TEST(JsonBody, RefusesWhatIsNoUnicode) {
  // The tokenizer and the template would each make something else of it.
  EXPECT_EQ(RefusedAt("{\"a\": \"\xff\xfe\"}"), "a");
  EXPECT_EQ(RefusedAt("{\"a\": \"\xed\xa0\x80\"}"), "a");  // a surrogate
  EXPECT_EQ(RefusedAt("{\"a\": \"\xc0\xaf\"}"), "a");      // an overlong form
  EXPECT_EQ(RefusedAt("{\"a\": \"x\x01y\"}"), "a");
  EXPECT_EQ(RefusedAt(R"({"a": "\ud83d b"})"), "a");
  EXPECT_EQ(RefusedAt(R"({"a": "\ude00"})"), "a");
  EXPECT_EQ(RefusedAt(R"({"a": "\ud83d\ude00 \u0000"})"), "ok");
}

TEST(JsonBody, IsBoundedInEveryDirection) {
  // A body of a few megabytes must not cost the stack, hundreds of megabytes, or seconds.
  EXPECT_EQ(RefusedAt(R"({"prompt": )" + std::string(100'000, '[') + std::string(100'000, ']') + "}"), "prompt");
  EXPECT_EQ(RefusedAt(R"({"prompt": )" + std::string(62, '[') + std::string(62, ']') + "}"), "ok");
  std::string objects = "1";
  for (int i = 0; i < 100; ++i) objects = R"({"a": )" + objects + "}";
  EXPECT_EQ(RefusedAt(objects), "a");

  std::string many = R"({"logit_bias": {)";
  for (int i = 0; i < 100'000; ++i) many += fmt::format("{}\"{}\":1", i == 0 ? "" : ",", i);
  EXPECT_EQ(RefusedAt(many + "}}"), "logit_bias");

  std::string values = R"({"prompt": [1)";
  for (int i = 0; i < (2 << 20); ++i) values += ",1";
  EXPECT_EQ(RefusedAt(values + "]}"), "prompt");

  EXPECT_EQ(RefusedAt("{\"" + std::string(100'000, 'k') + "\": 1}"), "body");
}

TEST(JsonBody, NamesTheFieldAndThePlace) {
  // "syntax error" in a body of a thousand messages helps nobody.
  const ApiResult<boost::json::object> result = ParseJsonBody(R"({"model": "m", "messages": [{"role": user}]})");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().param, "messages");
  EXPECT_NE(result.error().message.find("byte 37"), std::string::npos) << result.error().message;
}

}  // namespace
}  // namespace skein::server
