// SPDX-License-Identifier: Apache-2.0
//
// If these fail, a model that is too big is killed by the system in the middle of loading, or one that fits is refused.
#include "model/memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace skein::model {
namespace {

class MemoryTest : public testing::Test {
 protected:
  MemoryTest() : root_(testing::TempDir() + "/memory_test_" + std::to_string(getpid())) {}
  ~MemoryTest() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = root_ + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  std::string root_;
};

TEST_F(MemoryTest, FreeMemoryCountsWhereThereAreNoGroups) {
  Write("/proc/meminfo", "MemTotal: 100 kB\nMemAvailable:   50 kB\n");
  const MemoryLimit limit = AvailableMemory(root_);
  EXPECT_EQ(limit.bytes, 50u * 1024);
  EXPECT_EQ(limit.reason, "free memory");
}

TEST_F(MemoryTest, TheTightestGroupAboveCounts) {
  Write("/proc/meminfo", "MemAvailable: 1000000 kB\n");
  Write("/proc/self/cgroup", "0::/outer/inner\n");
  Write("/sys/fs/cgroup/outer/inner/memory.max", "max\n");
  Write("/sys/fs/cgroup/outer/memory.max", "10000000\n");
  Write("/sys/fs/cgroup/outer/memory.current", "6000000\n");
  Write("/sys/fs/cgroup/outer/memory.stat", "anon 1\ninactive_file 1000000\nactive_file 500000\n");
  const MemoryLimit limit = AvailableMemory(root_);
  EXPECT_EQ(limit.bytes, 10000000u - 4500000u);
  EXPECT_EQ(limit.reason, "control group");
}

TEST_F(MemoryTest, VersionOneGroups) {
  Write("/proc/meminfo", "MemAvailable: 1000000 kB\n");
  Write("/proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/b\n");
  Write("/sys/fs/cgroup/memory/b/memory.limit_in_bytes", "5000000\n");
  Write("/sys/fs/cgroup/memory/b/memory.usage_in_bytes", "1000000\n");
  EXPECT_EQ(AvailableMemory(root_).bytes, 4000000u);
}

TEST_F(MemoryTest, GroupThatIsFullLeavesNothing) {
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/memory.max", "100\n");
  Write("/sys/fs/cgroup/memory.current", "200\n");
  EXPECT_EQ(AvailableMemory(root_).bytes, 0u);
}

TEST_F(MemoryTest, RefusalNamesTheNumbers) {
  const MemoryNeed need{.weights_bytes = 3'000'000'000, .kv_bytes = 500'000'000, .scratch_bytes = 10'000'000};
  EXPECT_TRUE(CheckMemory(need, {4'000'000'000, "free memory"}).ok());
  const Status refused = CheckMemory(need, {1'000'000'000, "control group"});
  EXPECT_EQ(refused.code(), Code::kLimit);
  EXPECT_NE(refused.message().find("3.51 GB"), std::string::npos);
  EXPECT_NE(refused.message().find("control group allows 1.00 GB"), std::string::npos);
}

TEST_F(MemoryTest, ThisMachineHasSome) { EXPECT_GT(AvailableMemory().bytes, 0u); }

}  // namespace
}  // namespace skein::model
