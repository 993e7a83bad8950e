// SPDX-License-Identifier: Apache-2.0
#include "scheduler/tenants.h"

#include <string>

#include <gtest/gtest.h>

namespace skein::scheduler {
namespace {

// Whoever stays away for a day would own the engine for the next one.
TEST(TenantsTest, ComingBackGivesNoCredit) {
  Tenants tenants;
  tenants.Join("busy").service += 1000;
  tenants.Join("quiet");
  EXPECT_EQ(tenants.Join("quiet").service, 1000u);
  tenants.Leave("quiet");
  tenants.Leave("quiet");
  tenants.Join("busy").service += 500;
  EXPECT_EQ(tenants.Join("quiet").service, 1500u);
}

// Leaving for a moment would wipe out what one has had.
TEST(TenantsTest, ComingBackForgivesNothingWhileOthersAreThere) {
  Tenants tenants;
  tenants.Join("other");
  tenants.Join("greedy").service += 5000;
  tenants.Leave("greedy");
  EXPECT_EQ(tenants.Join("greedy").service, 5000u);
}

// A client that makes up tenants would fill the memory.
TEST(TenantsTest, TheIdleAreBounded) {
  Tenants tenants;
  tenants.Join("live");
  for (int i = 0; i < 100000; ++i) {
    tenants.Join(std::to_string(i));
    tenants.Leave(std::to_string(i));
    ASSERT_LE(tenants.count(), Tenants::kRemembered + 1);
  }
  EXPECT_EQ(tenants.Join("live").live, 2u);
}

}  // namespace
}  // namespace skein::scheduler
