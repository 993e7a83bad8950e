// SPDX-License-Identifier: Apache-2.0
//
// How keys are compared. The linker puts counting functions in the place of the two that ApiKeys compares with
// (`--wrap`, see this folder's CMakeLists.txt): no clock, so nothing that a busy machine could blur.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "server/http/api_keys.h"

namespace {

// What this thread has asked of the two functions since the last look.
struct Calls {
  std::vector<std::size_t> digested;       // sizes
  std::vector<std::size_t> compared;       // sizes
  std::vector<const void*> compared_with;  // second operands, in order
};
thread_local Calls calls;

}  // namespace

extern "C" {
unsigned char* __real_SHA256(const unsigned char* data, std::size_t size, unsigned char* digest);
int __real_CRYPTO_memcmp(const void* a, const void* b, std::size_t size);

unsigned char* __wrap_SHA256(const unsigned char* data, std::size_t size, unsigned char* digest) {
  calls.digested.push_back(size);
  return __real_SHA256(data, size, digest);
}
int __wrap_CRYPTO_memcmp(const void* a, const void* b, std::size_t size) {
  calls.compared.push_back(size);
  calls.compared_with.push_back(b);
  return __real_CRYPTO_memcmp(a, b, size);
}
}

namespace skein::server {
namespace {

constexpr std::size_t kKeys = 20;

std::string KeyNumber(std::size_t k) { return fmt::format("key-number-{:03}-abcdefgh", k); }

// Whoever can measure how long a comparison takes would find a key byte by byte.
TEST(ApiKeys, EveryPresentedKeyIsDigestedOnceAndComparedWithAllDigestsWhole) {
  ApiKeys keys;
  std::string text;
  for (std::size_t k = 0; k < kKeys; ++k) text += KeyNumber(k) + "\n";
  ASSERT_TRUE(keys.Add(text, "test").ok());
  const std::string right = KeyNumber(7);
  std::vector<std::string> presented = {right, KeyNumber(0), KeyNumber(kKeys - 1), "", "k", right + "x", right.substr(1),
                                        std::string(511, 'k'), std::string(100'000, 'k')};
  for (std::size_t place = 0; place < right.size(); ++place) {  // the first byte that differs, everywhere
    presented.push_back(right);
    presented.back()[place] ^= 0x40;
  }
  std::vector<const void*> order;
  for (const std::string& key : presented) {
    calls = {};
    const ApiKeys::Key* found = keys.Find(key);
    EXPECT_EQ(found != nullptr, key == right || key == KeyNumber(0) || key == KeyNumber(kKeys - 1)) << key.substr(0, 40);
    EXPECT_EQ(calls.digested, std::vector<std::size_t>{key.size()}) << key.substr(0, 40);
    EXPECT_EQ(calls.compared, std::vector<std::size_t>(kKeys, 32)) << key.substr(0, 40);
    if (order.empty()) order = calls.compared_with;
    EXPECT_EQ(calls.compared_with, order) << key.substr(0, 40);
  }
}

}  // namespace
}  // namespace skein::server
