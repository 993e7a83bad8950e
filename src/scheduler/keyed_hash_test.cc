// SPDX-License-Identifier: Apache-2.0
#include "scheduler/keyed_hash.h"

#include <vector>

#include <gtest/gtest.h>

namespace skein::scheduler {
namespace {

// Replicas and routers of one deployment would not agree on prefixes, and the strength shown for the published function
// would not be this one's. The numbers are those of its authors: key 00 … 0f, input 00 01 02 ….
TEST(KeyedHashTest, GivesThePublishedNumbers) {
  const HashSecret secret{0x0706050403020100, 0x0F0E0D0C0B0A0908};
  std::vector<std::byte> input;
  EXPECT_EQ(KeyedHash(secret, input), 0x726FDB47DD0E0E31u);
  while (input.size() < 15) input.push_back(static_cast<std::byte>(input.size()));
  EXPECT_EQ(KeyedHash(secret, input), 0xA129CA6149BE45E5u);
  EXPECT_NE(KeyedHash({secret.low + 1, secret.high}, input), 0xA129CA6149BE45E5u);
}

}  // namespace
}  // namespace skein::scheduler
