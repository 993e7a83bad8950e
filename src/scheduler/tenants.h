// SPDX-License-Identifier: Apache-2.0
//
// Tenants counts what each tenant has had: the virtual token counters of "Fairness in Serving Large Language Models"
// (Sheng et al., 2024). A prompt's token that is computed costs 1, a generated token 2; what the prefix index saved and
// what is computed again after preemption cost nothing. A tenant that comes back after a pause starts no lower than those
// that are active, so that nobody saves up service by staying away.
//
// Bounded: of tenants without a live sequence the ones that have had least are forgotten first, who lose least by it.
//
// Owned and called by the engine thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

namespace skein::scheduler {

struct Tenant {
  std::uint64_t service = 0;
  std::uint32_t live = 0;     // sequences, waiting or running
};

class Tenants {
 public:
  static constexpr std::uint64_t kPromptToken = 1, kGeneratedToken = 2;
  static constexpr std::size_t kRemembered = 1024;  // without live sequences, at most

  // One live sequence more. The reference stays valid until as many Leaves.
  Tenant& Join(const std::string& name);
  void Leave(const std::string& name);
  std::size_t count() const { return tenants_.size(); }

 private:
  void ForgetSome();

  std::unordered_map<std::string, Tenant> tenants_;
  std::size_t idle_ = 0;
  std::uint64_t floor_ = 0;  // no newcomer starts below
};

}  // namespace skein::scheduler
