// SPDX-License-Identifier: Apache-2.0
//
// Chat templates against what jinja2 made of the same conversations, expressions and hostile templates. Needs
// ../shared/oracle/templates beside the repository; skipped without.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include <gtest/gtest.h>

#include "text/chat_template.h"

namespace skein::text {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

fs::path OracleFolder() {
  const char* source = std::getenv("SKEIN_SOURCE_DIR");
  return source == nullptr ? fs::path() : fs::path(source) / "../shared/oracle/templates";
}

std::string ReadAll(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<json::object> ReadLines(const fs::path& path) {
  std::vector<json::object> rows;
  std::ifstream file(path, std::ios::binary);
  json::parse_options options;
  options.max_depth = 200;
  for (std::string line; std::getline(file, line);) {
    json::error_code error;
    json::value row = json::parse(line, error, {}, options);
    if (error) {  // a lone surrogate in a template: JSON of the reference, not ours
      ADD_FAILURE() << path << ": " << error.message();
      continue;
    }
    rows.push_back(std::move(row.as_object()));
  }
  return rows;
}

// The usual budgets, but time enough for a machine that is busy with other things.
TemplateBudgets Patient() {
  TemplateBudgets budgets;
  budgets.time = std::chrono::seconds(60);
  return budgets;
}

RenderInput InputOf(const json::object& row) {
  RenderInput input;
  input.messages = row.at("messages").as_array();
  if (!row.at("tools").is_null()) input.tools = row.at("tools");
  if (!row.at("documents").is_null()) input.documents = row.at("documents");
  input.add_generation_prompt = row.at("add_generation_prompt").as_bool();
  input.bos_token = json::value_to<std::string>(row.at("bos_token"));
  input.eos_token = json::value_to<std::string>(row.at("eos_token"));
  input.kwargs = row.at("extra").as_object();
  input.now = json::value_to<std::string>(row.at("date"));
  return input;
}

// Empty when `found` is what the row wants, else what differs.
std::string Judge(const json::object& row, const Result<std::string>& found) {
  if (const json::value* wanted = row.if_contains("expected")) {
    if (!found.ok()) return "wanted text, found error: " + found.status().message();
    return *found == wanted->as_string() ? "" : "wanted\n" + json::value_to<std::string>(*wanted) + "\nfound\n" + *found;
  }
  const std::string kind = json::value_to<std::string>(row.at("error"));
  const std::string message = json::value_to<std::string>(row.at("message"));
  if (found.ok()) return "wanted an error (" + kind + ": " + message + "), found\n" + *found;
  if (kind == "raise_exception" && found.status().message().find(message) == std::string::npos) {
    return "wanted the message " + message + ", found " + found.status().message();
  }
  return "";
}

Result<std::string> TextOf(Result<RenderedPrompt> prompt) {
  if (!prompt.ok()) return prompt.status();
  return std::move(prompt->text);
}

class ChatTemplateOracle : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(OracleFolder())) GTEST_SKIP() << "no oracle beside the repository";
  }
};

TEST_F(ChatTemplateOracle, ConversationsRenderAsTheReferenceDoes) {
  // A prompt that differs by one character from what the model was trained on makes its answers worse, silently.
  for (const fs::directory_entry& entry : fs::directory_iterator(OracleFolder())) {
    if (entry.path().extension() != ".jinja") continue;
    const std::string name = entry.path().stem().string();
    const auto parsed = ChatTemplate::Parse(ReadAll(entry.path()));
    ASSERT_TRUE(parsed.ok()) << name << ": " << parsed.status().message();
    int passed = 0;
    int total = 0;
    for (const json::object& row : ReadLines(OracleFolder() / (name + ".cases.jsonl"))) {
      ++total;
      const std::string problem = Judge(row, TextOf((*parsed)->Render(InputOf(row), Patient())));
      passed += problem.empty() ? 1 : 0;
      EXPECT_EQ(problem, "") << name << " case " << row.at("id") << " " << row.at("conversation");
    }
    std::printf("  %-24s %d/%d\n", name.c_str(), passed, total);
  }
}

TEST_F(ChatTemplateOracle, ExpressionsGiveWhatTheReferenceGives) {
  // A filter or method that means something else than in jinja2 breaks templates of models we never saw.
  std::map<std::string, std::pair<int, int>> counts;
  for (const json::object& row : ReadLines(OracleFolder() / "expressions.jsonl")) {
    const std::string source = json::value_to<std::string>(row.at("template"));
    const std::string problem = Judge(row, RenderExpression(source, row.at("context").as_object(), Patient()));
    auto& [passed, total] = counts[json::value_to<std::string>(row.at("level"))];
    ++total;
    passed += problem.empty() ? 1 : 0;
    EXPECT_EQ(problem, "") << row.at("id") << ": " << source;
  }
  for (const auto& [level, count] : counts) std::printf("  %-24s %d/%d\n", level.c_str(), count.first, count.second);
}

TEST_F(ChatTemplateOracle, HostileTemplatesEndWithinTheirBudget) {
  // A template from a model's file could otherwise hang or fill the server that loads it.
  int passed = 0;
  int total = 0;
  for (const json::object& row : ReadLines(OracleFolder() / "hostile.jsonl")) {
    ++total;
    const std::string source = json::value_to<std::string>(row.at("template"));
    const auto start = std::chrono::steady_clock::now();
    const Result<std::string> found = RenderExpression(source, row.at("context").as_object());
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    EXPECT_LT(seconds, row.at("budget").at("seconds").to_number<double>()) << row.at("name");
    const std::string expect = json::value_to<std::string>(row.at("expect"));
    bool good = true;
    if (expect.starts_with("error, within")) good = !found.ok();
    if (found.ok()) {
      for (const char* internals : {"<class", "__", "object at 0x", "root:", "uid="}) {
        good = good && found->find(internals) == std::string::npos;
      }
    }
    EXPECT_TRUE(good) << row.at("name") << ": " << (found.ok() ? found->substr(0, 200) : found.status().message());
    passed += good ? 1 : 0;
  }
  std::printf("  %-24s %d/%d\n", "hostile", passed, total);
}

}  // namespace
}  // namespace skein::text
