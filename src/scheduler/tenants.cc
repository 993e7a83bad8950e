// SPDX-License-Identifier: Apache-2.0
#include "scheduler/tenants.h"

#include <algorithm>
#include <vector>

#include "base/check.h"

namespace skein::scheduler {

Tenant& Tenants::Join(const std::string& name) {
  const auto [place, is_new] = tenants_.try_emplace(name);
  Tenant& tenant = place->second;
  if (tenant.live == 0) {
    if (!is_new) --idle_;
    std::uint64_t least = ~std::uint64_t{0};
    for (const auto& [other_name, other] : tenants_) {
      if (other.live > 0) least = std::min(least, other.service);
    }
    if (least != ~std::uint64_t{0}) floor_ = std::max(floor_, least);
    tenant.service = std::max(tenant.service, floor_);
  }
  ++tenant.live;
  return tenant;
}

void Tenants::Leave(const std::string& name) {
  Tenant& tenant = tenants_.at(name);
  SKEIN_CHECK(tenant.live > 0);
  if (--tenant.live > 0) return;
  // The last one to leave an idle engine takes the floor up: what all have had together is forgiven.
  if (++idle_ == tenants_.size()) floor_ = std::max(floor_, tenant.service);
  if (idle_ > kRemembered) ForgetSome();
}

// Halves the idle ones, so that it is rarely called.
void Tenants::ForgetSome() {
  std::vector<std::pair<std::uint64_t, std::string>> idle;
  for (const auto& [name, tenant] : tenants_) {
    if (tenant.live == 0) idle.emplace_back(tenant.service, name);
  }
  std::sort(idle.begin(), idle.end());
  idle.resize(idle.size() / 2);
  for (const auto& [service, name] : idle) tenants_.erase(name);
  idle_ -= idle.size();
}

}  // namespace skein::scheduler
