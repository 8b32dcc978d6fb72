#include "host_crosses.hpp"

#include <tacit/app/bem/on_device.hpp>
#include <tacit/op/hmatrix/device_blocks.hpp>

#include "op/hmatrix/crosses.hpp"

namespace tacit::device {

Global host_crosses(const app::bem::SingleLayer& layer, std::span<const Global> order,
                    std::span<const op::WantedBlock> wanted, const op::CompressOptions& options) {
  const auto entry = app::bem::entries(layer);
  Global ranks = 0;
#pragma omp parallel for schedule(dynamic, 1) reduction(+ : ranks)
  for (std::ptrdiff_t k = 0; k < std::ptrdiff_t(wanted.size()); ++k) {
    const auto& [block, tolerance] = wanted[std::size_t(k)];
    const auto rows = order.subspan(std::size_t(block.row_begin), std::size_t(block.rows())),
               columns = order.subspan(std::size_t(block.column_begin), std::size_t(block.columns()));
    if (!block.admissible) {
      std::vector<double> all(rows.size() * columns.size());
      entry(rows, columns, all.data());
      continue;
    }
    op::detail::Entries<double> of(entry, rows, columns);
    op::detail::Crosses<double> crosses(of, tolerance, options);
    crosses.run();
    ranks += crosses.rank();
  }
  return ranks;
}

std::unique_ptr<op::BlockMaker<double>> virtual_blocks(const app::bem::SingleLayer& layer,
                                                       std::span<const Global> order) {
  return std::make_unique<op::DeviceBlocks<double, app::bem::SingleLayerEntry, Host>>(
      std::make_shared<exec::Devices<Host>>(std::vector<int>{0}), order, order,
      app::bem::SingleLayerEntry{layer.numbers()});
}

}  // namespace tacit::device
