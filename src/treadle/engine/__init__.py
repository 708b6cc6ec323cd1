"""What treadle does: runs are begun, driven step by step, ended, landed, recovered and shown.

Other packages use of it what is listed here, and nothing else. Imports stay direct, so that a
command loads only what it needs.

    elsewhere.archive: Shelf folder name_of of_step save
    elsewhere.fleet_run: FleetOrder Ticket WORKER bring_commit bring_here call_off give_back
    elsewhere.fleet_run: insert is_claimable look order_of peek priority_of record requeue restore
    elsewhere.fleet_run: signed
    goals: Refused require_sandbox resume_run run_goal run_tasks
    health: Preview answer_document attempt command_line examine health_document login_state
    health: preview
    landing.land: Landed Undone land undo
    landing.tracker: add names read
    letters: hand_over is_letter
    lock: MAIL hold holder is_abandoned
    prune: prune
    recording: export order require_known unpack
    recovery.recover: adopt_uploaded
    recovery.repair: repair
    run.begin: Extras begin_run check_possible new_row prepare
    run.confinement: capped reading
    run.memory: ClaimCount Comment PROTECTED_DIFF Progress RunMemory Spent Watch add_comment
    run.memory: clashes comments_of decode due_runs is_queued next_commands nobody recall
    run.memory: unheard_comments
    run.order: MessageOrder Order Script freeze freeze_script held_to lowered
    run.resume: load_run resume_run take_over
    run.run: Archive Run Tools
    run.run_files: Manifest
    run.step_folder: MESSAGE_FILE OUTBOX
    session: Interrupts opened
    show.report: markdown tail
    show.view: Explanation MAX_DAYS asked_order claims cost_document counts criteria
    show.view: events_document explain find_run require_chain run_document runs_document
    show.view: total_usage usage_words
    wheel.commit: Finished
    wheel.end: land_or_ask tell_desk
    wheel.loop: drive_run finish_run record_step take_step turns
"""
