// SPDX-License-Identifier: Apache-2.0
//
// Tests of JsonWriter.
#include "base/json_writer.h"

#include <gtest/gtest.h>

#include <limits>

namespace skein {
namespace {

// If this failed, a script that reads --json would break on an answer.
TEST(JsonWriter, WritesWhatAParserTakes) {
  JsonWriter json;
  json.BeginObject().Member("a", 1).Key("b").BeginArray().Value(true).Value(0.5).Null().BeginArray().EndArray();
  json.EndArray().Member("c", "x\"\\\n\x01").Member("d", std::numeric_limits<double>::infinity()).EndObject();
  EXPECT_EQ(json.text(), "{\"a\":1,\"b\":[true,0.5,null,[]],\"c\":\"x\\\"\\\\\\n\\u0001\",\"d\":null}");
}

// If this failed, half a character of a model's answer would make the whole line unreadable.
TEST(JsonWriter, BrokenUtf8BecomesReplacementCharacters) {
  std::string out;
  AppendJsonString(out, "\xc3\xa9|\xc3|\xed\xa0\x80|\xf4\x90\x80\x80|\xf0\x9f\x98\x80");
  EXPECT_EQ(out, "\"\xc3\xa9|\xef\xbf\xbd|\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd|"
                 "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd|\xf0\x9f\x98\x80\"");
}

}  // namespace
}  // namespace skein
