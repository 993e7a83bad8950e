// SPDX-License-Identifier: Apache-2.0
//
// If rounds were put together wrongly, a ratio between two machines' moods would be taken for one between two programs.
#include <gtest/gtest.h>

#include "bench_comm_figures.h"

namespace skein::app {
namespace {

CommRow Row(const char* algorithm, std::size_t bytes, double median_us) { return {"shm", "bf16", algorithm, bytes, median_us, median_us / 2}; }

TEST(BenchComm, RatiosAreTakenWithinARound) {
  // In the second round everything took ten times as long.
  const std::vector<std::vector<CommRow>> rounds = {{Row("one_shot", 64, 1), Row(kMpiAllReduce, 64, 3)},
                                                    {Row("one_shot", 64, 10), Row(kMpiAllReduce, 64, 30)},
                                                    {Row("one_shot", 64, 1), Row(kMpiAllReduce, 64, 3)}};
  EXPECT_DOUBLE_EQ(TimesMpi(rounds, Row("one_shot", 64, 0)), 3);
  EXPECT_EQ(TimesMpi(rounds, Row("one_shot", 128, 0)), 0);
  const std::vector<CommRow> merged = MergeRounds(rounds);
  ASSERT_EQ(merged.size(), 2U);
  EXPECT_EQ(merged[0].median_us, 1);
  EXPECT_EQ(merged[1].best_us, 1.5);
}

TEST(BenchComm, CsvComesBack) {
  const std::vector<CommRow> rows = {Row("ring", 4096, 1.25), {"mpi", "", kMessage, 8, 3, 2}};
  const auto back = CommFromCsv(CommCsv(rows));
  ASSERT_TRUE(back.ok()) << back.status().message();
  ASSERT_EQ(back->size(), 2U);
  EXPECT_EQ((*back)[0].algorithm, "ring");
  EXPECT_EQ((*back)[0].median_us, 1.25);
  EXPECT_EQ((*back)[1].wire, "");
  EXPECT_EQ((*back)[1].bytes, 8U);
  EXPECT_FALSE(CommFromCsv("something else\n").ok());
  EXPECT_FALSE(CommFromCsv(CommCsv(rows) + "shm,bf16,ring,x,1,1\n").ok());
  EXPECT_FALSE(CommFromCsv(CommCsv(rows) + "shm,bf16,ring,1,1\n").ok());
}

TEST(BenchComm, ALinkIsFittedThroughItsMessages) {
  std::vector<CommRow> rows = {Row("one_shot", 64, 99)};
  for (const std::size_t bytes : {100U, 1000U, 10000U, 100000U}) rows.push_back({"shm", "", kMessage, bytes, 2 + static_cast<double>(bytes) / 5000, 0});
  const LinkFit fit = FitLink(rows, "shm");
  EXPECT_NEAR(fit.alpha_us, 2, 1e-9);
  EXPECT_NEAR(fit.gigabytes_per_s, 5, 1e-9);
  EXPECT_EQ(FitLink(rows, "mpi").gigabytes_per_s, 0);
}

}  // namespace
}  // namespace skein::app
