// SPDX-License-Identifier: Apache-2.0
//
// Tests of option fields: where values come from, what is refused and in which words, what help shows.
#include "base/options.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "base/edit_distance.h"

namespace skein {
namespace {

struct Sample {
  std::string model;
  std::string prompt;
  std::string config;
  std::string secret;
  int max_tokens = 256;
  float top_p = 1.0f;
  std::uint64_t seed = 0;
  std::uint64_t memory = 0;
  bool quiet = false;
  std::string kv = "bf16";
  std::vector<std::string> stop;
  std::vector<int> prompts{512};

  void Describe(FieldList& fields) {
    fields.AddPositional("MODEL", &model, true, "a model").CalledElsewhere({"model", "m"});
    fields.AddPositional("PROMPT", &prompt, false, "a text");
    fields.Group("Answer");
    fields.Add("max-tokens", "N", &max_tokens, "tokens of the answer").Range(1, 4096).CalledElsewhere({"n-predict", "n"});
    fields.Add("top-p", "P", &top_p, "nucleus").Range(0, 1);
    fields.Add("seed", "N", &seed, "of the random numbers");
    fields.Add("stop", "TEXT", &stop, "ends the answer");
    fields.Group("Machine");
    fields.Add("kv-dtype", "TYPE", &kv, "type of the KV cache").OneOf({"bf16", "int8"});
    fields.Add("kv-memory", "SIZE", &memory, "for the KV cache").Bytes();
    fields.Add("n-prompt", "LIST", &prompts, "lengths").Range(0, 100000).Letter('p');
    fields.Add("quiet", "", &quiet, "says nothing");
    fields.Add("config", "FILE", &config, "a file of options");
    fields.Add("secret", "TEXT", &secret, "only typed").FlagOnly();
  }
};

const char* NoEnvironment(const char*) { return nullptr; }
const char* SomeEnvironment(const char* name) {
  return std::string_view(name) == "SKEIN_MAX_TOKENS" ? "4" : nullptr;
}

Status Parse(Sample& sample, std::vector<std::string> arguments, FieldList::Environment environment = NoEnvironment) {
  FieldList fields;
  sample.Describe(fields);
  const std::string known[] = {"port", "[chat]"};
  return fields.Parse(arguments, "skein run", "run", known, environment);
}

// If this failed, a script's flags would fill the wrong fields.
TEST(Options, FlagsFillTheirFields) {
  Sample sample;
  ASSERT_TRUE(Parse(sample, {"file.gguf", "--max-tokens", "7", "--top-p=0.5", "-p", "1,2,3", "hello", "--seed",
                             "18446744073709551615", "--stop", "a", "--stop", "-b", "--kv-memory", "2GiB", "--quiet"})
                  .ok());
  EXPECT_EQ(sample.model, "file.gguf");
  EXPECT_EQ(sample.prompt, "hello");
  EXPECT_EQ(sample.max_tokens, 7);
  EXPECT_EQ(sample.top_p, 0.5f);
  EXPECT_EQ(sample.prompts, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(sample.seed, 18446744073709551615ull);
  EXPECT_EQ(sample.stop, (std::vector<std::string>{"a", "-b"}));
  EXPECT_EQ(sample.memory, 2ull << 30);
  EXPECT_TRUE(sample.quiet);
}

// If this failed, help would offer what is of no use to anybody but us, or tests could not ask for it.
TEST(Options, WhatIsForDevelopersIsTakenAndNotShown) {
  bool simulated = false;
  FieldList fields;
  fields.Group("Load");
  fields.Add("simulated", "", &simulated, "computes nothing").FlagOnly().ForDevelopers();
  EXPECT_EQ(fields.Help().find("simulated"), std::string::npos);
  EXPECT_EQ(fields.Markdown().find("simulated"), std::string::npos);
  const std::vector<std::string> given = {"--simulated"};
  ASSERT_TRUE(fields.Parse(given, "skein serve", "serve", {}, NoEnvironment).ok());
  EXPECT_TRUE(simulated);
}

// If this failed, a value out of its limits would reach the engine, or the message would not help.
TEST(Options, WrongValuesAreRefusedAndNamed) {
  const std::vector<std::vector<std::string>> wrong = {
      {"--max-tokens", "many"}, {"--max-tokens", "-3"},   {"--max-tokens", "0"},     {"--max-tokens", "5000"},
      {"--max-tokens", "5x"},   {"--max-tokens", ""},     {"--top-p", "1.5"},        {"--top-p", "nan"},
      {"--top-p", "inf"},       {"--seed", "-1"},         {"--seed", "99999999999999999999999999"},
      {"--kv-dtype", "fp8"},    {"--kv-memory", "4 GiB"}, {"--kv-memory", "99999999999TiB"},
      {"--n-prompt", "1,,2"},   {"--n-prompt", "1,x"},    {"--quiet=perhaps"}};
  for (std::vector<std::string> arguments : wrong) {
    Sample sample;
    const std::string flag = arguments[0].substr(0, arguments[0].find('='));
    arguments.insert(arguments.begin(), "model");
    const Status status = Parse(sample, arguments);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << arguments.back();
    EXPECT_NE(status.message().find(flag), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("takes"), std::string::npos) << status.message();
    EXPECT_EQ(status.field(), flag);
  }
}

// If this failed, a misspelt flag would be a riddle.
TEST(Options, UnknownFlagsGetTheNearestName) {
  Sample sample;
  EXPECT_NE(Parse(sample, {"m", "--max-token", "3"}).message().find("--max-tokens?"), std::string::npos);
  EXPECT_NE(Parse(sample, {"m", "--sotp", "x"}).message().find("--stop?"), std::string::npos);
  EXPECT_NE(Parse(sample, {"m", "--elephants"}).message().find("--help"), std::string::npos);
  EXPECT_EQ(Parse(sample, {"m", "-z"}).code(), Code::kInvalidArgument);
  EXPECT_EQ(Parse(sample, {"m", "p", "surplus"}).code(), Code::kInvalidArgument);
  EXPECT_EQ(Parse(sample, {}).code(), Code::kInvalidArgument);
  EXPECT_EQ(Parse(sample, {"m", "--seed"}).code(), Code::kInvalidArgument);
}

// If this failed, whoever comes from another program would search the help for what each flag is called here.
TEST(Options, NamesThatOtherProgramsHaveAreToldOurs) {
  Sample sample;
  for (const char* flag : {"--n-predict", "--n-predict=3", "-n"}) {
    EXPECT_NE(Parse(sample, {"m", flag, "3"}).message().find("did you mean --max-tokens?"), std::string::npos) << flag;
  }
  for (const char* flag : {"--model", "-m"}) {
    EXPECT_NE(Parse(sample, {flag, "m"}).message().find("MODEL is given without a flag"), std::string::npos) << flag;
  }
}

// If this failed, a configuration file would silently override what was typed.
TEST(Options, FlagWinsOverEnvironmentOverFile) {
  const std::string path = ::testing::TempDir() + "/options_test_" + std::to_string(::getpid()) + ".toml";
  std::ofstream(path) << "max-tokens = 3\nport = 80\nstop = [\"a\", \"b\"]\nn-prompt = [7, 8]\n[run]\ntop-p = 0.25\n"
                         "[chat]\nmax-tokens = 9\n";
  Sample by_file, by_environment, by_flag;
  ASSERT_TRUE(Parse(by_file, {"m", "--config", path}).ok());
  EXPECT_EQ(by_file.max_tokens, 3);
  EXPECT_EQ(by_file.top_p, 0.25f);
  EXPECT_EQ(by_file.stop.size(), 2u);
  EXPECT_EQ(by_file.prompts, (std::vector<int>{7, 8}));
  ASSERT_TRUE(Parse(by_environment, {"m", "--config", path}, SomeEnvironment).ok());
  EXPECT_EQ(by_environment.max_tokens, 4);
  ASSERT_TRUE(Parse(by_flag, {"m", "--config", path, "--max-tokens", "5", "--stop", "c"}, SomeEnvironment).ok());
  EXPECT_EQ(by_flag.max_tokens, 5);
  EXPECT_EQ(by_flag.stop, (std::vector<std::string>{"c"}));

  Sample refused;
  std::ofstream(path) << "max-tokenz = 3\n";
  EXPECT_NE(Parse(refused, {"m", "--config", path}).message().find("max-tokens?"), std::string::npos);
  std::ofstream(path) << "max-tokens = [1, 2]\n";
  EXPECT_EQ(Parse(refused, {"m", "--config", path}).code(), Code::kInvalidArgument);
  std::ofstream(path) << "max-tokens = \n";
  EXPECT_EQ(Parse(refused, {"m", "--config", path}).code(), Code::kInvalidFile);
  EXPECT_EQ(Parse(refused, {"m", "--config", path + ".absent"}).code(), Code::kInvalidArgument);
  ::unlink(path.c_str());
}

const char* AbsentFile(const char* name) {
  return std::string_view(name) == "SKEIN_CONFIG" ? "/nowhere/skein.toml" : nullptr;
}

// If this failed, a typo in a file, or a value of the wrong kind, would be passed over in silence.
TEST(Options, WhatAFileHoldsIsUsedOrRefused) {
  const std::string path = ::testing::TempDir() + "/options_test_kinds_" + std::to_string(::getpid()) + ".toml";
  for (const char* text : {"[rnu]\nmax-tokens = 3\n", "max-tokens = {a = 1}\n", "[max-tokens]\n", "max-tokens = []\n",
                           "[run.deeper]\nmax-tokens = 3\n", "[[run]]\nmax-tokens = 3\n", "secret = 3\n",
                           "max-tokens = 1979-05-27\n", "max-tokens = [[3]]\n", "quiet = \"maybe\"\n"}) {
    std::ofstream(path) << text;
    Sample sample;
    const Status status = Parse(sample, {"m", "--config", path});
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << text;
    EXPECT_NE(status.message().find(path), std::string::npos) << status.message();
  }
  ::unlink(path.c_str());
  Sample sample;
  EXPECT_TRUE(Parse(sample, {"m"}, AbsentFile).message().starts_with("SKEIN_CONFIG takes")) << "the variable is named";
}

// If this failed, help would not fit a terminal or leave a flag out.
TEST(Options, HelpNamesEveryFlagWithinItsColumns) {
  Sample sample;
  FieldList fields;
  sample.Describe(fields);
  const std::string help = fields.Help(60);
  for (const std::string& name : fields.FlagNames()) EXPECT_NE(help.find("--" + name), std::string::npos) << name;
  for (std::size_t at = 0; at < help.size();) {
    const std::size_t end = help.find('\n', at);
    EXPECT_LE(end - at, 60u) << help.substr(at, end - at);
    at = end + 1;
  }
  EXPECT_NE(help.find("[256]"), std::string::npos);
  EXPECT_NE(fields.Markdown().find("`SKEIN_MAX_TOKENS`"), std::string::npos);
}

// If this failed, suggestions would point to the wrong word.
TEST(EditDistance, CountsSwapsOnce) {
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("bnech", "bench"), 1);
  EXPECT_EQ(EditDistance("temprature", "temperature"), 1);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
  const std::string commands[] = {"run", "bench", "tokenize", "detokenize"};
  EXPECT_EQ(NearestWord("tokenise", commands), "tokenize");
  EXPECT_EQ(NearestWord("bnech", commands), "bench");
  EXPECT_EQ(NearestWord("xyz", commands), "");
}

}  // namespace
}  // namespace skein
