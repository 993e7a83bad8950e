// SPDX-License-Identifier: Apache-2.0
#include "kernels/ceilings/ceilings.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "kernels/cpu.h"

namespace skein::kernels {
namespace {

// A processor would meet an instruction that it lacks, or a kernel be held against nothing.
TEST(Ceilings, AreThereAndRunHere) {
  std::set<std::string_view> names;
  for (const ComputeCeiling& ceiling : ComputeCeilings()) {
    EXPECT_TRUE(names.insert(ceiling.name).second) << ceiling.name << " twice";
    EXPECT_GT(ceiling.operations, 0);
    ceiling.run(3);
  }
  if (Cpu().avx2) {
    EXPECT_TRUE(names.contains("int8"));
    EXPECT_TRUE(names.contains("fp32"));
  }
  const std::vector<std::byte> memory(4096);
  ReadInOrder(memory.data(), memory.size());
}

}  // namespace
}  // namespace skein::kernels
