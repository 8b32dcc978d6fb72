// Declarations of the calls of the GASPI standard (17.1) that src/comm/transport/gaspi.cpp uses, so that it is compiled
// and tested (rig.cpp) where no GASPI library is installed. Types have the sizes of GPI-2.
#pragma once

extern "C" {

using gaspi_rank_t = unsigned short;
using gaspi_segment_id_t = unsigned char;
using gaspi_queue_id_t = unsigned char;
using gaspi_number_t = unsigned int;
using gaspi_notification_id_t = unsigned int;
using gaspi_notification_t = unsigned int;
using gaspi_size_t = unsigned long;
using gaspi_offset_t = unsigned long;
using gaspi_timeout_t = unsigned long;
using gaspi_pointer_t = void*;

enum gaspi_return_t { GASPI_ERROR = -1, GASPI_SUCCESS = 0, GASPI_TIMEOUT = 1, GASPI_QUEUE_FULL = 23 };
enum gaspi_alloc_t { GASPI_MEM_UNINITIALIZED, GASPI_MEM_INITIALIZED };
static const gaspi_timeout_t GASPI_TEST = 0;

gaspi_return_t gaspi_proc_init(gaspi_timeout_t timeout);
gaspi_return_t gaspi_proc_rank(gaspi_rank_t* rank);
gaspi_return_t gaspi_segment_max(gaspi_number_t* segments);
gaspi_return_t gaspi_segment_alloc(gaspi_segment_id_t segment, gaspi_size_t bytes, gaspi_alloc_t how);
gaspi_return_t gaspi_segment_register(gaspi_segment_id_t segment, gaspi_rank_t rank, gaspi_timeout_t timeout);
gaspi_return_t gaspi_segment_ptr(gaspi_segment_id_t segment, gaspi_pointer_t* base);
gaspi_return_t gaspi_write_notify(gaspi_segment_id_t from, gaspi_offset_t at, gaspi_rank_t rank, gaspi_segment_id_t to,
                                  gaspi_offset_t place, gaspi_size_t bytes, gaspi_notification_id_t id,
                                  gaspi_notification_t value, gaspi_queue_id_t queue, gaspi_timeout_t timeout);
gaspi_return_t gaspi_notify(gaspi_segment_id_t segment, gaspi_rank_t rank, gaspi_notification_id_t id,
                            gaspi_notification_t value, gaspi_queue_id_t queue, gaspi_timeout_t timeout);
gaspi_return_t gaspi_notify_waitsome(gaspi_segment_id_t segment, gaspi_notification_id_t begin, gaspi_number_t count,
                                     gaspi_notification_id_t* first, gaspi_timeout_t timeout);
gaspi_return_t gaspi_notify_reset(gaspi_segment_id_t segment, gaspi_notification_id_t id, gaspi_notification_t* before);
gaspi_return_t gaspi_wait(gaspi_queue_id_t queue, gaspi_timeout_t timeout);

}  // extern "C"
