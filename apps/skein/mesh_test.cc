// SPDX-License-Identifier: Apache-2.0
//
// What other hosts and servers answer is read here; if it were believed, a host could say anything to the terminal or to another program.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "bench_comm_figures.h"
#include "mesh_check_findings.h"
#include "mesh_top_figures.h"
#include "run_program.h"

namespace skein::app {
namespace {

TEST(MeshTop, SharesAreOfTheTimeBetweenTwoPages) {
  const auto before = ReadTopPage("skein_rank_busy_seconds_total{rank=\"1\"} 1.0\nskein_rank_waiting_seconds_total{rank=\"1\"} 7.0\n");
  const auto now = ReadTopPage(
      "# HELP skein_rank_info x\nvllm:x{engine=\"0\"} 3\n"
      "skein_rank_info{rank=\"1\",pipe=\"0\",tensor=\"1\",layers=\"0-29\",heads=\"5-8\"} 1.0\n"
      "skein_rank_busy_seconds_total{rank=\"1\"} 2.5\nskein_rank_waiting_seconds_total{rank=\"1\"} 0.5\nskein_rank_memory_bytes{rank=\"1\"} 1e6\n");
  ASSERT_TRUE(before.ok() && now.ok());
  const std::vector<TopRow> rows = TopRows(*before, *now, 2);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_DOUBLE_EQ(rows[0].busy, 0.75);
  EXPECT_DOUBLE_EQ(rows[0].waiting, 0.25) << "a counter that was started anew";
  EXPECT_EQ(rows[0].heads, "5-8");
  EXPECT_EQ(rows[0].memory_bytes, 1e6);
  EXPECT_NE(TopText(rows).find("0-29"), std::string::npos);
}

TEST(MeshTop, PagesAreNotTrusted) {
  EXPECT_EQ(ReadTopPage("").status().code(), Code::kUnavailable);
  EXPECT_EQ(ReadTopPage("skein_engine_steps_total 3\n").status().code(), Code::kUnavailable);
  for (const char* line : {"skein_rank_", "skein_rank_x{}", "skein_rank_x{} 1", "skein_rank_x{rank=\"a\"} 1", "skein_rank_x{rank=\"-1\"} 1",
                           "skein_rank_x{rank=\"99999999999\"} 1", "skein_rank_x{rank=\"0\"} nan", "skein_rank_x{rank=\"0\"}", "skein_rank_x}{ 1",
                           "skein_rank_x{rank=\"0} 1", "skein_rank_x{xrank=\"0\"} 1"}) {
    EXPECT_EQ(ReadTopPage(line).status().code(), Code::kInvalidFile) << line;
  }
  const auto page = ReadTopPage("skein_rank_info{rank=\"0\",layers=\"\x1b[2J\"} 1\n");
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(page->at(0).layers, "") << "a terminal is not commanded";
}

TEST(MeshCheck, HostsAreNames) {
  const auto hosts = HostNames("a,10.0.0.2:2,a:3,node-3.lan");
  ASSERT_TRUE(hosts.ok());
  EXPECT_EQ(*hosts, (std::vector<std::string>{"a", "10.0.0.2", "node-3.lan"}));
  for (const char* list : {"a,", ",a", "-oProxyCommand=x", "a b", "a;b", "a:", "a:2x", ":2", "$(x)", "a,\x1b"}) EXPECT_FALSE(HostNames(list).ok()) << list;
  std::string many = "h";
  for (int i = 0; i < 100; ++i) many += ",h" + std::to_string(i);
  EXPECT_EQ(HostNames(many).status().code(), Code::kLimit);
  EXPECT_FALSE(HostNames(std::string(300, 'a')).ok());
}

TEST(MeshCheck, AHostsAnswerIsVersionAndTime) {
  const auto answer = ReadHostAnswer("Welcome to host b\nskein 0.1.0 (commit abc)\n1700000000123456789\n");
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->version, "skein 0.1.0 (commit abc)");
  EXPECT_EQ(answer->clock_ns, 1700000000123456789);
  for (const char* output : {"", "skein 0.1.0\n", "17\n", "skein 0.1.0\n-5\n", "skein 0.1.0\n17N\n", "sh: skein: not found\n"}) {
    EXPECT_FALSE(ReadHostAnswer(output).ok()) << output;
  }
}

TEST(MeshCheck, ClocksAreComparedWithinTheTimeOfTheQuestion) {
  constexpr std::int64_t kBefore = 1'000'000'000'000, kAfter = kBefore + 300'000'000;
  EXPECT_EQ(CompareClocks("b", kBefore + 5, kBefore, kAfter).status, "ok");
  EXPECT_EQ(CompareClocks("b", kAfter + 50'000'000, kBefore, kAfter).status, "ok");
  const Finding ahead = CompareClocks("b", kAfter + 2'000'000'000, kBefore, kAfter), behind = CompareClocks("b", kBefore - 500'000'000, kBefore, kAfter);
  EXPECT_EQ(ahead.status, "warn");
  EXPECT_NE(ahead.meaning.find("ahead by at least 2000 ms"), std::string::npos) << ahead.meaning;
  EXPECT_NE(behind.meaning.find("behind by at least 500 ms"), std::string::npos) << behind.meaning;
}

TEST(MeshCheck, AHostsSpeedIsOfItsKernels) {
  const auto said = [](const char* prompt, const char* token) {
    return fmt::format("{{\"findings\":[{{\"name\":\"speed\"}}],\"{}\":{},\"{}\":{}}}", kPromptSpeed, prompt, kTokenSpeed, token);
  };
  const auto speed = ReadHostSpeed("Welcome\n" + said("4e11", "3e10") + "\nbye\n");
  ASSERT_TRUE(speed.ok()) << speed.status().message();
  EXPECT_EQ(speed->prompt, 4e11);
  EXPECT_EQ(speed->token, 3e10);
  for (const std::string& output : {std::string(), std::string("{\"findings\""), std::string("{\"findings\":[]}"), said("4e11", "0"), said("-4e11", "3e10"),
                                    said("1e300", "3e10"), said("\"4e11\"", "3e10"), said("[]", "{}")}) {
    EXPECT_FALSE(ReadHostSpeed(output).ok()) << output;
  }
}

TEST(MeshCheck, UnlikeHostsAreToldTheirShares) {
  EXPECT_EQ(CompareSpeeds({"a", "b"}, {{4e11, 3e10}, {3.9e11, 2.9e10}}).status, "ok");
  const Finding unlike = CompareSpeeds({"a", "b"}, {{1e11, 1e10}, {4e11, 4e10}});
  EXPECT_EQ(unlike.status, "warn");
  EXPECT_NE(unlike.fix.find("--rank-speeds 0.25,1.00"), std::string::npos) << unlike.fix;
}

TEST(MeshCheck, RowsAreFoundAmongWhatMpirunSays) {
  const std::string csv = CommCsv({{"mpi", "bf16", "one_shot", 4096, 12, 10}});
  const auto rows = ReadLinkRows("WARNING: a, b, c\n" + csv + "[host:1] 1 more process has sent help message\n");
  ASSERT_TRUE(rows.ok());
  ASSERT_EQ(rows->size(), 1U);
  EXPECT_EQ(rows->front().median_us, 12);
  EXPECT_FALSE(ReadLinkRows("mpirun was unable to launch\n").ok());
}

TEST(RunProgram, EndsWhatHangs) {
  // One host that hangs would hold up all the others.
  const auto hangs = RunProgram("/bin/sh", {"-c", "echo here; sleep 100"}, std::chrono::milliseconds(300));
  ASSERT_TRUE(hangs.ok());
  EXPECT_FALSE(hangs->in_time);
  EXPECT_EQ(hangs->output, "here\n");
  const auto fails = RunProgram("/bin/sh", {"-c", "echo no >&2; exit 3"}, std::chrono::seconds(20));
  ASSERT_TRUE(fails.ok());
  EXPECT_TRUE(fails->in_time);
  EXPECT_FALSE(fails->well);
  EXPECT_EQ(fails->how, "ended with status 3");
  EXPECT_EQ(fails->output, "no\n");
  // Whoever leaves a child behind with its output has ended all the same.
  const auto leaves = RunProgram("/bin/sh", {"-c", "sleep 100 & echo done"}, std::chrono::seconds(60));
  ASSERT_TRUE(leaves.ok());
  EXPECT_TRUE(leaves->well) << leaves->how;
  EXPECT_EQ(leaves->output, "done\n");
}

TEST(RunProgram, WordsOfAShellAreQuoted) {
  const auto outcome = RunProgram("/bin/sh", {"-c", "printf %s " + ShellWord("it's $HOME; `x`")}, std::chrono::seconds(20));
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->output, "it's $HOME; `x`");
}

}  // namespace
}  // namespace skein::app
